"""Produce: each partition is judged, appended and answered."""

import errno
import gc
import random
from collections.abc import AsyncIterator
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.context import Unwritten
from siltstone.broker.handlers import produce as produce_handler
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages import AT_ONCE as READ_AT_ONCE
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from siltstone.protocol.records.build import BatchFields
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.log.log import Log
from tests.support import faults
from tests.support.batches import make_batch
from tests.support.services import ServicesOnDisk

WAITING = pytest.mark.parametrize("may_wait", [False, True], ids=["at once", "at the end"])
STORAGE_ERROR = 56


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """A broker with two topics of two partitions each."""
    opened = await open_home(tmp_path)
    yield opened
    await opened.close()


async def open_home(root: Path) -> ServicesOnDisk:
    """Open a broker; one of its topics is to be flushed after each ninth record."""
    home = await ServicesOnDisk(root).open()
    await home.services.topics.create("a", 2, {})
    await home.services.topics.create("b", 2, {"flush.messages": "9"})
    return home


def topic(name: str, *partitions: tuple[int, bytearray | None]) -> TopicProduceData:
    """Return a topic of a request, with records that a log may stamp."""
    rows = [
        PartitionProduceData(index, None if batch is None else memoryview(bytearray(batch)))
        for index, batch in partitions
    ]
    return TopicProduceData(name, NO_ID, rows)


def batch_of(home: ServicesOnDisk, records: int = 1, **fields: Any) -> bytearray:
    """Return a batch of now."""
    return make_batch(records, timestamp=home.clock.now_ms(), **fields)


async def produce(
    home: ServicesOnDisk, *topics: TopicProduceData, may_wait: bool = False
) -> list[tuple[str, list[tuple[int, int, int]]]]:
    """Return index, error and base offset of each partition; at the end of the round if it may."""
    context = home.context(0, 12)
    context.may_wait = may_wait
    response: Any = produce_handler.handle(context, ProduceRequest(None, 1, 1000, list(topics)))
    home.services.logs.services.appends.write()  # as a turn does at its end
    if isawaitable(response):
        response = await response
    if isinstance(response, Unwritten):
        response = response.answer()
    return [(name, [each[:3] for each in rows]) for name, _, rows in response[0]]


def ends(home: ServicesOnDisk) -> dict[str, int]:
    """Return where the logs of clients end."""
    return {
        f"{name}-{index}": log.log_end_offset
        for (name, index), log in home.services.topics.logs.items()
        if not name.startswith("__")
    }


def test_what_comes_twice_is_noticed() -> None:
    """A topic or a partition; a topic without partitions too."""
    once = topic("a", (0, None), (1, None))

    assert produce_handler.count_once([], 0) == 0
    assert produce_handler.count_once([once, topic("b", (0, None))], 0) == 3
    assert produce_handler.count_once([once, topic("b", (0, None))], 1) == -1  # both have no id
    assert produce_handler.count_once([once, once], 0) == -1
    assert produce_handler.count_once([topic("a", (4, None), (4, None))], 0) == -1
    assert produce_handler.count_once([topic("a")], 0) == -1


@WAITING
async def test_each_partition_has_its_own_answer(home: ServicesOnDisk, *, may_wait: bool) -> None:
    """Good batches between bad ones are appended, and nothing of the others."""
    damaged = batch_of(home)
    damaged[-1] ^= 1
    sequence = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    transactional = batch_of(home, flags=TRANSACTIONAL, **sequence)

    answer = await produce(
        home,
        topic("a", (0, batch_of(home, 2)), (1, damaged), (2, batch_of(home))),
        topic("b", (1, batch_of(home, 3)), (0, transactional)),
        topic("unknown", (0, batch_of(home))),
        topic("__consumer_offsets", (0, batch_of(home))),
        may_wait=may_wait,
    )

    assert answer == [
        ("a", [(0, 0, 0), (1, 2, -1), (2, 3, -1)]),
        ("b", [(1, 0, 0), (0, 53, -1)]),
        ("unknown", [(0, 3, -1)]),
        ("__consumer_offsets", [(0, 3, -1)]),
    ]
    assert ends(home) == {"a-0": 2, "a-1": 0, "b-0": 0, "b-1": 3}
    assert await produce(home, topic("a", (0, None), (1, bytearray()))) == [
        ("a", [(0, 87, -1), (1, 87, -1)])
    ]


async def test_each_of_very_many_partitions_has_one_answer(home: ServicesOnDisk) -> None:
    """As of few: in their order, by the last batch; a topic without partitions is left out."""
    many = range(2, READ_AT_ONCE)

    answer = await produce(
        home,
        topic("a", (0, batch_of(home, 2)), *((index, None) for index in many)),
        topic("b"),
        topic("a", (1, batch_of(home, 4)), (0, batch_of(home, 3))),
    )

    assert answer == [("a", [(0, 0, 0), *((index, 3, -1) for index in many), (1, 0, 0)])]
    assert ends(home) == {"a-0": 3, "a-1": 4, "b-0": 0, "b-1": 0}


@WAITING
async def test_a_disk_that_refuses_refuses_its_partition(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, *, may_wait: bool
) -> None:
    """The batch before it is written; those behind it are refused for as long as the disk is."""
    disk = faults.install(monkeypatch)
    disk.fail("pwrite", errno.ENOSPC, path="a-1/0", times=1)

    answer = await produce(
        home, topic("a", *((index, batch_of(home)) for index in range(2))), may_wait=may_wait
    )

    assert answer == [("a", [(0, 0, 0), (1, STORAGE_ERROR, -1)])]
    assert ends(home) == {"a-0": 1, "a-1": 0, "b-0": 0, "b-1": 0}
    assert await produce(home, topic("a", (0, batch_of(home)))) == [("a", [(0, STORAGE_ERROR, -1)])]


async def test_a_right_may_come_while_many_topics_are_judged(home: ServicesOnDisk) -> None:
    """The request is answered in a later turn, so none of its batches waits for the round."""

    class Rights:
        """Rights to nothing at the first look, and to everything at the second."""

        def sees(self, *_: object) -> bool:
            return False

        def may(self, *_: object) -> bool:
            return True

    context: Any = home.context(0, 12)
    context.may_wait = True
    context.rights = Rights()
    many = [topic(f"unknown-{number}", (0, None)) for number in range(250)]
    topics = [topic("a", (0, batch_of(home))), *many]
    response: Any = produce_handler.handle(context, ProduceRequest(None, 1, 1000, topics))
    answer, *_ = await response

    assert answer[0][2][0][:3] == (0, 0, 0)
    assert len(answer) == len(topics)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_log_is_flushed_once_before_the_answer(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """However many batches want it; if that fails, so has each batch of it, and no other."""
    flushed: list[str] = []
    flush = Log.flush

    def count(log: Log) -> None:
        flushed.append(str(log.topic_partition))
        flush(log)

    monkeypatch.setattr(Log, "flush", count)
    disk = faults.install(monkeypatch)
    if fails:
        disk.fail("fsync", path="b-0/0")
    large = topic("b", (0, batch_of(home, 9)), (1, batch_of(home)))

    answer = await produce(home, topic("a", (0, batch_of(home))), large)

    assert answer == [
        ("a", [(0, 0, 0)]),
        ("b", [(0, STORAGE_ERROR, -1) if fails else (0, 0, 0), (1, 0, 0)]),
    ]
    assert flushed == ["b-0"]


@WAITING
async def test_what_was_refused_is_let_go(home: ServicesOnDisk, *, may_wait: bool) -> None:
    """At once, with its bytes: the frame may be a large one, and garbage is collected seldom."""
    sequence = {"producer_id": 7, "producer_epoch": 0}
    await produce(home, topic("a", (0, batch_of(home, base_sequence=0, **sequence))))
    skipping = topic("a", (0, batch_of(home, base_sequence=5, **sequence)))
    gc.collect()
    gc.disable()
    try:
        answer = await produce(home, skipping, may_wait=may_wait)
        left = [each for each in gc.get_objects() if isinstance(each, (ValidatedBatch, KafkaError))]
    finally:
        gc.enable()

    assert answer == [("a", [(0, 45, -1)])]
    assert left == []


async def test_the_bytes_of_what_is_stored_are_let_go(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the answer: a request may have many batches that were packed again."""
    kept: list[int] = []
    flush = Log.flush

    def look(log: Log) -> None:
        batches = [each for each in gc.get_objects() if isinstance(each, ValidatedBatch)]
        kept.extend(len(each.buffer) for each in batches)
        flush(log)

    monkeypatch.setattr(Log, "flush", look)

    answer = await produce(home, topic("b", (1, batch_of(home)), (0, batch_of(home, 9))))

    assert answer == [("b", [(1, 0, 0), (0, 0, 0)])]
    assert kept == [0, 0]


async def test_what_waits_for_the_round_has_no_answer_before(home: ServicesOnDisk) -> None:
    """A fault of ours: it must not be told as done."""
    context = home.context(0, 12)
    context.may_wait = True
    request = ProduceRequest(None, 1, 1000, [topic("a", (0, batch_of(home)))])
    response = produce_handler.handle(context, request)

    assert isinstance(response, Unwritten)
    with pytest.raises(RuntimeError, match="a-0 is not written yet"):
        response.answer()
    home.services.logs.services.appends.write()
    assert response.answer()[0][0][2][0][:3] == (0, 0, 0)


def random_request(chance: random.Random, home: ServicesOnDisk) -> list[TopicProduceData]:
    """Return batches of a producer that goes on, repeats and skips, and of none."""
    topics = []
    logs = home.services.topics.logs
    for name in chance.sample(["a", "b"], chance.randint(1, 2)):
        rows = []
        for index in chance.sample([0, 1, 2], chance.randint(1, 3)):
            fields: BatchFields = {}
            if (name, index) in logs and chance.random() < 0.7:
                entry = logs[name, index].producers.producers.get(7)
                following = 0 if entry is None else entry.next_sequence
                sequence = max(0, following + chance.choice([0, 0, 0, 1, -1]))
                fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            rows.append((index, batch_of(home, chance.randint(1, 3), **fields)))
        topics.append(topic(name, *rows))
    return topics


@pytest.mark.parametrize("seed", range(5))
async def test_those_that_wait_are_as_those_that_do_not(tmp_path: Path, seed: int) -> None:
    """The same answers to the same requests, and the same bytes."""
    told: list[Any] = []
    for may_wait in (False, True):
        (tmp_path / str(may_wait)).mkdir()
        home = await open_home(tmp_path / str(may_wait))
        chance = random.Random(seed)
        answers = [
            await produce(home, *random_request(chance, home), may_wait=may_wait) for _ in range(60)
        ]
        files = {
            key: log.segments[-1].log_path.read_bytes()
            for key, log in home.services.topics.logs.items()
            if not key[0].startswith("__")
        }
        await home.close()
        told.append((answers, files))
    assert told[0] == told[1]
    codes = {row[1] for answer in told[0][0] for _, rows in answer for row in rows}
    assert codes == {0, 3, 45}
