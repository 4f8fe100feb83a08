"""Every API is asked for as many elements as fit, beside a client that measures its waits.

Once where nobody asks for rights, and where there is an authorizer with many rules: by a client
without a right, and by one that may do everything but with topics.

``-k`` chooses, ``-s`` prints what was measured, passed or not:
pytest -s tests/faults/test_large_requests.py -k "Metadata and 1MB and no_rights"
Of 4 and 16 MB a request in eight is asked, LARGE_EVERY=1 asks them all; `make large` does so.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.create_topics.v7 import request as create_topics
from kio.serial import entity_reader

from siltstone.broker.api import Api
from siltstone.protocol.names import CLUSTER_NAME
from siltstone.storage import files
from tests.support.beside import Control, Cost, measure
from tests.support.broker import SiltstoneProcess
from tests.support.large_requests import TOPIC, LargeRequest, large_requests
from tests.support.newer_than_kio import IN_KIO, versions_in_kio
from tests.support.ports import address_of
from tests.support.running import Caller, Client
from tests.support.turns import Turns, slowness

MIB = 1 << 20
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DELETE_TOPICS = 20
PREPARING_HOST = "127.0.0.2"
"""The rules allow a client from there what the topic needs."""
PREFIX_LENGTHS = range(1, 61)
RIGHTS: dict[str, tuple[str, ...] | None] = {
    "open": None,
    "no_rights": (),
    "no_topics": ("GROUP", "CLUSTER", "TRANSACTIONAL_ID"),
}
"""The kinds of resources that the client has all rights to."""
MOST = 0
"""Instead of a size: as many elements as the API takes, in a frame of 1 MB at most."""
SIZES = (MOST, 1, 4, 16)
SAMPLED = int(os.environ.get("LARGE_EVERY", "8"))
WAIT_SECONDS = 0.05
TURN_SECONDS = 0.02
"""Of processor time, on a machine of a known speed: see `slowness`."""
MEMORY_FACTOR = 8
MEMORY_BYTES = 4 * MIB
"""Memory that a request may take whatever its size: a module is imported, a pool is filled."""
ANSWER_SECONDS = 30.0
CALM_ROUNDS = 2
TRIES = 3
_HEAD = (
    "API",
    "v",
    "where",
    "what",
    "MB",
    "answer",
    "s",
    "turn ms",
    "wait ms",
    "memory",
    "too much",
)

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(600)]


class Target:
    """A broker that is started again when a request has left it large, silent, or dead."""

    def __init__(self, root: Path, rights: tuple[str, ...] | None) -> None:
        self.turns = Turns(root)
        settings = {
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
        if rights is not None:
            settings["authorizer.class.name"] = AUTHORIZER
        self.broker = SiltstoneProcess(root, settings, self.turns.environ)
        if rights is not None:
            write_rules(self.broker.folder, rights)
        self.topic_id = UUID(int=0)
        self.is_spoilt = True
        self.has_topic = False
        self.control: Control
        self._resident = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return address_of(self.broker.bootstrap)

    def prepare(self) -> None:
        """Have a broker with the topic, as small as it was at first."""
        alive = self.broker.daemon.running
        is_small = alive and self.broker.resident_bytes < self._resident + 64 * MIB
        if is_small and not self.is_spoilt and self.has_topic:
            return
        if is_small and not self.is_spoilt:
            self._have_topic()
            return
        self.close()
        self.broker.start()
        self._have_topic()
        self.is_spoilt = False
        self._resident = self.broker.resident_bytes
        self.control = Control(self.address, self.broker.daemon.pid)
        self.control.start()

    def close(self) -> None:
        """End the broker and the client beside."""
        self.broker.close()
        if hasattr(self, "control"):
            self.control.stop()

    def _have_topic(self) -> None:
        self.topic_id = asyncio.run(self._create_topic()) or self.topic_id
        self.has_topic = True

    async def _create_topic(self) -> UUID | None:
        """Return the id of the topic if it is new."""
        host = (PREPARING_HOST, 0)
        caller = Caller(Client(*await asyncio.open_connection(*self.address, local_addr=host)))
        topic: Any = create_topics.CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        answer = await caller.ask(create_topics.CreateTopicsRequest(topics=(topic,)))
        await caller.client.close()
        created = answer.topics[0]
        return created.topic_id if created.error_code == 0 else None


def write_rules(folder: Path, rights: tuple[str, ...]) -> None:
    """Allow the client from here all with some kinds of resources, and bob what has prefixes.

    A name of noughts begins with nearly all the prefixes.
    """

    def allow(kind: str, principal: str, name: str = "*", host: str = "*") -> list[str]:
        pattern = "LITERAL" if name in {"*", CLUSTER_NAME} else "PREFIXED"
        return [kind, pattern, name, principal, host, "ALL", "ALLOW"]

    rules = [allow("TOPIC", "User:ANONYMOUS", host=PREPARING_HOST)]
    names = {"CLUSTER": CLUSTER_NAME}
    rules += [allow(kind, "User:ANONYMOUS", names.get(kind, "*")) for kind in rights]
    for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"):
        rules += [allow(kind, "User:bob", "0" * length) for length in PREFIX_LENGTHS]
    folder.mkdir(parents=True)
    file = folder / files.ACLS
    file.touch(0o600)
    file.write_text(json.dumps({"version": 1, "acls": rules}))


@pytest.fixture(scope="module", params=RIGHTS)
def target(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Target]:
    """A broker for all requests of a client that has some rights."""
    target = Target(tmp_path_factory.mktemp("large"), RIGHTS[request.param])
    yield target
    target.close()


@pytest.mark.parametrize(
    "megabytes", SIZES, ids=lambda size: "most" if size == MOST else f"{size}MB"
)
@pytest.mark.parametrize("api", IN_KIO, ids=lambda api: api.name)
def test_nobody_waits_for_a_large_request(target: Target, api: Api, megabytes: int) -> None:
    """Of the oldest and the newest version: turns of 20 ms, waits of 50 ms, 8 times the frame."""
    asked = [
        request
        for version in {*versions_in_kio(api)[:1], *versions_in_kio(api)[-1:]}
        for request in large_requests(api.key, version)
    ]
    if megabytes > 1:
        asked = asked[api.key % SAMPLED :: SAMPLED]
    most = api.max_elements if megabytes == MOST else None
    rows = [
        (api.name, request, *cheapest(target, request, max(megabytes, 1) * MIB, most))
        for request in asked
    ]
    table = render(rows)
    print(f"\n{table}")  # noqa: T201

    assert not any(excess for *_, excess in rows), "\n" + table


@pytest.mark.parametrize("api", IN_KIO, ids=lambda api: api.name)
def test_requests_are_what_they_say(api: Api) -> None:
    """They are of the size asked, and kio reads elements that are all distinct or all the same."""
    for version in {*versions_in_kio(api)[:1], *versions_in_kio(api)[-1:]}:
        read = entity_reader(load_request_schema(api.key, version))
        for request in large_requests(api.key, version):
            frame = request.frame(20_000, UUID(int=5))
            assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
            assert 15_000 < len(frame) <= 20_000 or request.kind == "text"
            if request.kind in {"tags", "one tag"}:  # which kio does not know
                continue
            entity: Any
            entity, size = read(memoryview(frame), request.head_size)
            assert request.head_size + size == len(frame)
            if request.kind == "text":
                continue
            for name in request.path:
                entity = getattr(entity[0] if isinstance(entity, tuple) else entity, name)
            kinds = len(set(entity))
            assert len(entity) > 100
            assert kinds == 1 or (request.kind == "distinct" and kinds == len(entity))


def cheapest(
    target: Target, request: LargeRequest, size: int, most: int | None
) -> tuple[int, Cost, str]:
    """Return how large it was, its cost, and what was too much; that is measured again first."""
    for left in reversed(range(TRIES)):
        target.prepare()
        frame = request.frame(size, target.topic_id, *(() if most is None else (most,)))
        control = target.control
        control.begin()
        calm = control.wait(1.0, CALM_ROUNDS)
        pid = target.broker.daemon.pid
        cost = measure(target.address, pid, frame, control, target.turns, ANSWER_SECONDS)
        target.has_topic = request.api_key != DELETE_TOPICS
        target.is_spoilt = cost.answer == "nothing" or not target.broker.daemon.running
        excess = find_excess(cost, calm, size)
        if not left or cost.wait > 1.0 or not excess:
            break
    return len(frame), cost, excess


def find_excess(cost: Cost, calm: float, size: int) -> str:
    """Return what was too much, in words, or nothing."""
    found = []
    if cost.answer == "nothing":
        found.append("silent")
    if cost.turn > TURN_SECONDS * slowness():
        found.append("turn")
    if cost.wait > calm + WAIT_SECONDS:
        found.append("wait")
    if cost.memory > MEMORY_FACTOR * size + MEMORY_BYTES:
        found.append("memory")
    return " ".join(found)


def render(rows: list[tuple[str, LargeRequest, int, Cost, str]]) -> str:
    """Return the measurements as a table, sizes and memory in MB."""
    lines = [_HEAD]
    for name, request, size, cost, excess in rows:
        lines.append(
            (
                name,
                str(request.version),
                request.place,
                request.kind,
                f"{size / MIB:.2f}",
                cost.answer,
                f"{cost.seconds:.2f}",
                f"{cost.turn * 1000:.1f}",
                f"{cost.wait * 1000:.0f}",
                f"{cost.memory / MIB:.1f}",
                excess,
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
