"""The state that outlives a broker in its process: nothing that another broker could notice.

A simulator starts brokers one after another and kills some: the next one must not find what one
has left in a module.
"""

import asyncio
import functools
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from siltstone.protocol.messages import Message
from siltstone.protocol.messages.fetch import FetchPartition
from tests.support.batches import make_batch
from tests.support.clock import now
from tests.support.commits import commit
from tests.support.fetch_requests import FetchRequest
from tests.support.fetch_requests import request_entity as fetch_entity
from tests.support.produce_requests import request_entity as produce_entity
from tests.support.running import Running, running
from tools.seams import DAEMON

MAY_CHANGE = {
    "siltstone.broker.process.loop_share._lines": "a line for each event loop, which goes with it"
}
"""Names of modules that a broker may leave changed, each with the reason."""

KEPT_ANSWERS = {
    "broker.handlers.create_topics._write_configs",
    "broker.handlers.describe_configs._write_rows",
    "broker.process.logs._second_text",
    "broker.security.authorizer._canonical",
    "broker.telemetry._compile",
    "config.describe._topic_defaults",
    "config.known.known_settings",
    "config.layers._check_topic",
    "config.machine.public_name",  # of the machine, for as long as the process lives
    "protocol.coordinator.transaction_records._group_few",
    "protocol.java._kept_hash",
    "protocol.java._spell",
    "protocol.records.compression._read_lz4_header",
    "storage.segment.check.find_checksum",
}
"""Functions whose answers are kept: each computes only, so that it answers every broker alike."""

KEEPS = re.compile(
    r"^@(?:lru_)?cache\b.*\n(?:@.*\n)*def (\w+)|^(\w+)[^=\n]* = (?:lru_)?cache\b", re.MULTILINE
)
ROOT = Path(__file__).parents[2]


def modules() -> list[types.ModuleType]:
    """Return the modules of the product that are loaded."""
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("siltstone.") and ".commands" not in name and ".pipeline" not in name
    ]


def names() -> Iterator[tuple[str, Any]]:
    """Yield what stands at the top of each module that has not imported it, by its full name."""
    for module in modules():
        for name, value in vars(module).items():
            if not name.startswith("__"):
                yield f"{module.__name__}.{name}", value


def state_of(value: object, seen: frozenset[int] = frozenset()) -> object:
    """Return all that is in a value, to be compared later; what has no content is itself."""
    if isinstance(value, (str, bytes, int, float)):
        return value
    if id(value) in seen:
        return "again"
    seen |= {id(value)}
    if isinstance(value, Mapping):
        return [(state_of(key, seen), state_of(each, seen)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [state_of(each, seen) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(each) for each in value)
    fields: dict[str, object] = {}
    if type(value).__module__.startswith("siltstone."):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        fields = {**getattr(value, "__dict__", {}), **{n: getattr(value, n, None) for n in slots}}
    return [id(value), *((name, state_of(each, seen)) for name, each in fields.items())]


def snapshot() -> dict[str, object]:
    """Return the state of every name, but for kept answers: messages make tables once, too."""
    return {
        name: state_of(value)
        for name, value in names()
        if not isinstance(value, (functools._lru_cache_wrapper, Message))
    }


async def use(broker: Running, topic: str) -> int:
    """Create a topic, produce, fetch and commit; return how many bytes were fetched."""
    await broker.topics.create(topic, 1, {})
    if broker.topics.find("orders") is None:
        await broker.topics.create("orders", 1, {})
    caller = await broker.call()
    batch = bytes(make_batch(3, timestamp=now()))
    await caller.ask(produce_entity(9, 1, 1000, None, [(topic, [(0, batch)])]))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    got = await caller.ask(fetch_entity(12, FetchRequest(topics=[(topic, [wanted])])))
    await commit(broker, f"readers of {topic}", 1)
    return len(got.responses[0].partitions[0].records or b"")


async def test_a_broker_leaves_nothing_in_a_module(tmp_path: Path) -> None:
    """After one that has loaded all, another leaves every name of every module as it was."""
    async with running(tmp_path / "first") as broker:
        await use(broker, "before")
    before = snapshot()
    async with running(tmp_path / "second", "num.io.threads=3") as broker:
        assert await use(broker, "after") > 0
    after = snapshot()

    changed = {name for name, state in before.items() if after.get(name) != state}
    assert changed - MAY_CHANGE.keys() == set()


async def test_two_brokers_at_once_share_nothing(tmp_path: Path) -> None:
    """Each has its own topics, records, groups and figures, and stops without the other."""
    async with running(tmp_path / "first") as one:
        async with running(tmp_path / "second") as other:
            sizes = await asyncio.gather(use(one, "left"), use(other, "right"))
            assert all(sizes)
            assert one.topics.find("right") is None
            assert other.topics.find("left") is None
            assert one.requests is not other.requests
            assert one.broker.logs.background is not other.broker.logs.background
        assert await use(one, "again") > 0


def test_every_kept_answer_is_one_of_a_function_that_computes() -> None:
    """One that asked a disk, a clock or a network would give the next broker an old answer."""
    kept = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}.{found[1] or found[2]}"
        for package in DAEMON
        for path in (ROOT / package).rglob("*.py*")
        if path.suffix in {".py", ".pyx"} and "commands" not in path.parts
        for found in KEEPS.finditer(path.read_text())
    }

    assert kept == KEPT_ANSWERS
