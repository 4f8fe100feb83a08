"""Damages each byte of a small folder: what a broker then serves is right, refused, or named.

A broker fills the folder and stops. For each byte of each file, and each kind of damage, another
broker starts on a copy and is asked for everything. An answer that differs must be an error, or a
batch whose own checksum is wrong; else ``siltstone verify`` must name a fault of the folder.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.broker.__main__ import main as siltstone
from siltstone.config.errors import StartError
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.simulator.incarnation import ROOT, Incarnation, Killed, Silent
from tests.simulator.runs import begin
from tests.simulator.wire import Client
from tests.simulator.world.disk import Disk
from tests.simulator.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SETTINGS: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "log.cleaner.backoff.ms=300",
    "log.initial.task.delay.ms=100",
)
TOPICS: Final = {
    "plain": {"segment.bytes": "400", "index.interval.bytes": "50"},
    "compact": {
        "cleanup.policy": "compact",
        "segment.bytes": "200",
        "min.cleanable.dirty.ratio": "0.01",
    },
}
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_STAMP: Final = 1_700_000_000_000
_SECONDS: Final = 30.0
_UNSAID: Final = -1
"""In place of an error code: a batch has a wrong checksum, and the client finds out."""
_REFUSALS: Final = {_UNSAID, 2, 5, 15, 16, 56}
"""Codes that say that data cannot be served: damaged, not available, not loaded, disk failed."""
_WITHOUT_CHECKSUM: Final = "log-start-offset-checkpoint"
"""Apache Kafka's text, in which another digit is another offset: no program can tell."""


def _flip(data: bytearray, at: int) -> None:
    data[at] ^= 1 << at % 8


def _set(data: bytearray, at: int) -> None:
    data[at] = 0 if data[at] else 0xFF


def _cut(data: bytearray, at: int) -> None:
    del data[at:]


DAMAGES: Final = {"flipped": _flip, "set": _set, "cut": _cut}


class Wrong(NamedTuple):
    """A damage that changed an answer although nothing names it."""

    file: str
    position: int
    damage: str
    fault: str


class Asking:
    """A client of one broker, which asks one thing after the other."""

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._client = Client(lambda: incarnation, splits=0.0)

    def ask(self, key: int, version: int, *fields: Any) -> Any:
        """Ask an API, with the fields of its request as bare tuples; return the response.

        Raises:
            Silent: There is no answer.
        """
        asked = self._client.send(key, fields, version)
        self._incarnation.run_until(lambda: asked.answer is not None, _SECONDS)
        if asked.answer is None or asked.is_lost:
            raise Silent(f"API {key} does not answer {fields}: {asked.answer}")
        return asked.answer


def _batch(number: int, **fields: Any) -> bytearray:
    records = [Record(0, _STAMP + number, b"k%d" % (number % 3), b"value %d" % number)]
    return build_batch(records, **fields)


def _fill(asking: Asking) -> None:
    """Make two topics, a group, a user, a rule, a quota, and an aborted transaction."""
    topics = [(name, 1, 1, (), list(each.items())) for name, each in TOPICS.items()]
    created = asking.ask(19, 7, topics, 30_000, False).topics
    ids = {each.name: each.topic_id for each in created}

    def produce(topic: str, transactional_id: str | None, batch: bytearray) -> None:
        row = (topic, ids[topic], [(0, batch)])
        (answer,) = asking.ask(0, 11, transactional_id, -1, 30_000, [row]).responses
        assert answer.partition_responses[0].error_code == 0

    for number in range(6):
        for topic in TOPICS:
            produce(topic, None, _batch(number, codec=number % 3))
    for kind, name in enumerate(("g", "tx")):
        asking.ask(10, 3, name, kind, ())
    made = asking.ask(22, 5, "tx", 60_000, -1, -1, False, False)
    named = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    asking.ask(24, 3, (), "tx", *named.values(), [("plain", [0])])
    produce("plain", "tx", _batch(6, **named, base_sequence=0, flags=TRANSACTIONAL))
    asking.ask(26, 3, "tx", *named.values(), False)
    produce("plain", None, _batch(7))
    asking.ask(8, 9, "g", -1, "", None, -1, [("plain", ids["plain"], [(0, 3, -1, "m")])])
    asking.ask(21, 2, [("plain", [(0, 1)])], 30_000)
    asking.ask(30, 3, [(2, "plain", 3, "User:a", "*", 3, 3)])
    asking.ask(51, 0, (), [("a", 1, 4096, b"salt" * 4, b"word" * 8)])
    asking.ask(49, 1, [([("user", "a")], [("producer_byte_rate", 1e6, False)])], False)


def _observe(asking: Asking, ends: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the facts of everything that can be asked for; errors as `_Refused`."""
    topics = asking.ask(3, 12, None, False, False, False).topics
    ids = {}
    for each in sorted(topics, key=lambda topic: topic.name):
        errors = [each.error_code, *(part.error_code for part in each.partitions)]
        ids[each.name] = each.topic_id
        yield f"topic {each.name}", _or_error(max(errors), (each.topic_id, len(each.partitions)))
    yield "topics", sorted(ids)
    for name in sorted(ids.keys() & ends.keys()):
        for when in (-2, -1, _STAMP + 3):
            asked = asking.ask(2, 8, -1, 1, [(name, [(0, -1, when)])], 0)
            row = asked.topics[0].partitions[0]
            yield f"time {when} of {name}", _or_error(row.error_code, row.offset)
        for offset in range(ends[name] + 1):
            wanted = FetchTopic(name, b"", [FetchPartition(0, -1, offset, partition_max_bytes=1)])
            answer = asking.ask(1, 12, *FetchRequest(isolation_level=1, topics=[wanted]))
            part = answer.responses[0].partitions[0]
            data = bytes(part.records or b"")
            code = part.error_code or (0 if _is_sound(data) else _UNSAID)
            facts = (part.last_stable_offset, part.log_start_offset, part.aborted_transactions)
            yield f"{name} from {offset}", _or_error(code, (*facts, data))
        described = asking.ask(32, 4, [(2, name, None)], False, False).results[0]
        configs = [(each.name, each.value) for each in described.configs]
        yield f"settings of {name}", _or_error(described.error_code, sorted(configs))
    group = asking.ask(9, 8, "", (), [("g", None, -1, None)], False).groups[0]
    yield "group", _or_error(group.error_code, group.topics)
    rules = asking.ask(29, 3, 1, None, 1, None, None, 1, 1)
    yield "rules", _or_error(rules.error_code, rules.resources)
    users = asking.ask(50, 0, None)
    yield "users", _or_error(users.error_code, users.results)
    quotas = asking.ask(48, 1, (), False)
    yield "quotas", _or_error(quotas.error_code, quotas.entries)
    known = asking.ask(65, 0, ["tx"]).transaction_states[0]
    yield "transaction", _or_error(known.error_code, (known.transaction_state, known.producer_id))


class _Refused(NamedTuple):
    """An error in place of facts."""

    code: int


def _is_refusal(facts: Any) -> bool:
    return isinstance(facts, _Refused) and facts.code in _REFUSALS


def _or_error(code: int, facts: Any) -> Any:
    return _Refused(code) if code else facts


def _is_sound(data: bytes) -> bool:
    """Tell whether all batches have the checksum of what they say, as a client does."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + LENGTH_POSITION : at + LOG_OVERHEAD], "big")
        batch = data[at : at + LOG_OVERHEAD + size]
        if len(batch) <= ATTRIBUTES_POSITION or len(batch) < LOG_OVERHEAD + size:
            return False
        told = int.from_bytes(batch[CRC_POSITION:ATTRIBUTES_POSITION], "big")
        if batch[16] != 2 or told != crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]):
            return False
        at += len(batch)
    return True


def _live(disk: Disk | None, do: Callable[[Asking], Any], *, ends: str = "stop") -> Any:
    """Let a broker live on a disk while something is done; return the result and the disk."""
    world = World(7, yields=0.0, steals=0.0)
    if disk is None:
        disk = Disk(world.before_call, world.now_ns, ROOT, numbers=world.descriptors)
    disk.before, disk.now_ns, disk._numbers = world.before_call, world.now_ns, world.descriptors
    world.disk = disk
    incarnation = Incarnation(world, SETTINGS)
    result = None
    try:
        incarnation.start()
        result = do(Asking(incarnation))
        incarnation.let_pass(5.0 if ends == "stop" else 0.05, jumps=True)
        if ends == "stop":
            incarnation.stop()
    finally:
        if incarnation._loop is not None:
            incarnation.kill()
    return result, world.disk


@cache
def make_home() -> tuple[Disk, dict[str, bytes], dict[str, int], dict[str, Any]]:
    """Return a folder of a stopped broker: disk, files, ends of its logs, and all answers."""
    _, disk = _live(None, _fill)
    files = disk.folder(ROOT)

    def find_ends(asking: Asking) -> dict[str, int]:
        rows = [(name, [(0, -1, -1)]) for name in (*TOPICS, *INTERNAL)]
        asked = asking.ask(2, 8, -1, 0, rows, 0)
        return {each.name: each.partitions[0].offset for each in asked.topics}

    ends, _ = _live(disk.copy(), find_ends, ends="kill")
    answers, _ = _live(disk.copy(), lambda asking: dict(_observe(asking, ends)), ends="kill")
    return disk, files, ends, answers


def judge(place: tuple[str, int, str]) -> tuple[str, Wrong | None]:
    """Damage one byte; return what came of it, and what is wrong with that."""
    file, at, damage = place
    disk, files, ends, expected = make_home()
    data = bytearray(files[file])
    DAMAGES[damage](data, at)
    damaged = disk.copy()
    damaged.replace(f"{ROOT}/{file}", bytes(data))
    try:
        seen, _ = _live(damaged, lambda asking: dict(_observe(asking, ends)), ends="kill")
    except StartError:
        return "the start refuses", None
    except (Silent, Killed) as error:
        return "wrong", Wrong(*place, str(error))
    changed = [name for name in expected if seen.get(name) != expected[name]]
    if not changed:
        return "right", None
    odd = [name for name in changed if not _is_refusal(seen.get(name))]
    if not odd:
        crc = all(seen[name].code == _UNSAID for name in changed)
        return ("its checksum tells" if crc else "refused"), None
    is_named = _verify_names({**files, file: bytes(data)})
    if is_named or file.endswith(_WITHOUT_CHECKSUM):
        return ("verify names it" if is_named else "its format has no checksum"), None
    return "wrong", Wrong(*place, f"{odd[0]}: {seen.get(odd[0])}, not {expected[odd[0]]}")


def _verify_names(files: dict[str, bytes]) -> bool:
    """Tell whether ``siltstone verify`` finds a fault in a folder."""
    Disk.uninstall()
    with tempfile.TemporaryDirectory(prefix="siltstone-") as root:
        for name, data in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = siltstone(["verify", "--set", f"log.dirs={root}/a"])
    return code == 1 and "FAULT" in told.getvalue()


def _plain(facts: Any) -> Any:
    """Return facts as JSON has them: rows as lists, bytes as hexadecimal text."""
    if isinstance(facts, bytes):
        return facts.hex()
    if facts is None or isinstance(facts, str | int | float):
        return facts
    return [_plain(each) for each in facts]


def keep_folder(path: Path) -> None:
    """Write the folder and its answers to a file, for the releases to come."""
    _, files, ends, answers = make_home()
    texts = {name: base64.b64encode(data).decode() for name, data in files.items()}
    facts = {name: _plain(each) for name, each in answers.items()}
    path.write_text(json.dumps({"ends": ends, "answers": facts, "files": texts}, indent=1) + "\n")


def answers_of(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the answers of a broker on the folder of a file, and those of the one that wrote it.

    Settings are left out: their defaults, and which there are, change with releases.
    """
    kept = json.loads(path.read_text())
    world = World(7)
    disk = Disk(world.before_call, world.now_ns, ROOT)
    for name, text in kept["files"].items():
        disk.replace(f"{ROOT}/{name}", base64.b64decode(text), 0o600)
    seen, _ = _live(disk, lambda asking: dict(_observe(asking, kept["ends"])), ends="kill")
    return {
        name: _plain(facts) for name, facts in seen.items() if not name.startswith("settings")
    }, {name: facts for name, facts in kept["answers"].items() if not name.startswith("settings")}


def places(every: int) -> list[tuple[str, int, str]]:
    """Return each damage to each byte, or to one byte of so many."""
    _, files, _, _ = make_home()
    every_byte = [(file, at) for file in sorted(files) for at in range(len(files[file]))]
    return [(*place, damage) for place in every_byte[::every] for damage in DAMAGES]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulator.every_byte", description=__doc__
    )
    parser.add_argument("--every", type=int, default=1, help="take one byte of so many (1)")
    parser.add_argument("--keep", type=Path, help="write the folder and its answers to a file")
    parser.add_argument("--kept", type=Path, help="start on the folder of such a file")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    begin()
    if options.keep:
        keep_folder(options.keep)
        return 0
    if options.kept:
        print(json.dumps(answers_of(options.kept)))
        return 0
    wanted = places(options.every)
    _, files, _, _ = make_home()
    found: Counter[str] = Counter()
    wrong = []
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes, begin, maxtasksperchild=20) as pool:
        for outcome, fault in pool.imap_unordered(judge, wanted, chunksize=20):
            found[outcome] += 1
            if fault is not None:
                wrong.append(fault)
                print(
                    f"{fault.file} {fault.position} {fault.damage}: {fault.fault[:300]}", flush=True
                )
    size = sum(map(len, files.values()))
    print(f"{len(files)} files, {size} bytes; {len(wanted)} damages")
    print("\n".join(f"{count} {name}" for name, count in found.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
