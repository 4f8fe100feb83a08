"""Produce requests that arrive at once, on one connection or on several, are written together."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.protocol.messages.fetch import FetchPartition
from tests.support.batches import make_batch, make_producer_batch, make_rows
from tests.support.clock import now
from tests.support.common_requests import list_offsets as latest
from tests.support.faults import Disk, install
from tests.support.fetch_requests import FetchRequest
from tests.support.fetch_requests import request_entity as fetch_entity
from tests.support.logs import bytes_of, offsets_in
from tests.support.produce_requests import request_entity
from tests.support.running import Running, a_broker, running
from tests.support.waiting import within

home = a_broker(topics={"t": (2, {}), "packed": (1, {"compression.type": "gzip"})})


def produce(
    batch: bytearray | None = None, *partitions: int, topic: str = "t", acks: int = 1
) -> Any:
    """Return a request with the same batch for some partitions."""
    data = bytes(batch or make_batch(2, timestamp=now()))
    return request_entity(
        9, acks, 1000, None, [(topic, [(each, data) for each in partitions or (0,)])]
    )


FAILED = (ErrorCode.kafka_storage_error, -1)


def rows_of(answer: Any) -> list[tuple[ErrorCode, int]]:
    """Return what an answer says of each partition."""
    return [
        (each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


def messages_of(answer: Any) -> list[str]:
    """Return the error messages of an answer."""
    return [
        each.error_message or "" for topic in answer.responses for each in topic.partition_responses
    ]


def _writes(disk: Disk) -> list[str]:
    """Return the files of logs that were written to; their epochs may be written at any time."""
    paths = [Path(path) for kind, path in disk.calls if kind == "pwrite" and path.endswith(".log")]
    return [f"{each.parent.name}/{each.name}" for each in paths]


async def test_answers_are_those_of_requests_one_by_one(home: Running) -> None:
    """In order, and what comes behind them sees all of them."""
    caller = await home.call()
    requests = [produce(None, 0, 1), produce(), produce(None, 1, 0), produce(), latest(), produce()]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    answers = [await within(caller.receive(each), "an answer") for each in requests]

    ok = ErrorCode.none
    assert [rows_of(each) for each in answers[:4]] == [
        [(ok, 0), (ok, 0)],
        [(ok, 2)],
        [(ok, 2), (ok, 4)],
        [(ok, 6)],
    ]
    assert answers[4].topics[0].partitions[0].offset == 8
    assert rows_of(answers[5]) == [(ok, 8)]
    logs = home.topics.logs
    assert offsets_in(bytes_of(logs["t", 0], 0)) == [0, 2, 4, 6, 8]
    assert offsets_in(bytes_of(logs["t", 1], 0)) == [0, 2]


async def test_a_bad_batch_between_good_ones(home: Running) -> None:
    """It is refused, the others are stored."""
    caller = await home.call()
    bad = make_batch(2, timestamp=now())
    bad[-1] ^= 1
    requests = [produce(), produce(bad), produce()]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    answers = [await within(caller.receive(each), "an answer") for each in requests]

    assert [rows_of(each)[0] for each in answers] == [
        (ErrorCode.none, 0),
        (ErrorCode.corrupt_message, -1),
        (ErrorCode.none, 2),
    ]


async def test_requests_without_acknowledgement(home: Running) -> None:
    """Nothing is answered; all of it is stored."""
    caller = await home.call()
    silent = b"".join(caller.frame(produce(acks=0)) for _ in range(20))
    request = produce()
    await caller.client.send(silent + caller.frame(request))

    assert rows_of(await within(caller.receive(request), "an answer")) == [(ErrorCode.none, 40)]


async def test_one_that_waits_behind_those_that_do_not(home: Running) -> None:
    """A batch that a thread packs again is answered in its turn."""
    caller = await home.call()
    large = make_batch(make_rows(1, 20_000), timestamp=now())
    requests = [produce(), produce(), produce(large, topic="packed"), produce()]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    answers = [await within(caller.receive(each), "an answer") for each in requests]

    assert [rows_of(each)[0][1] for each in answers] == [0, 2, 0, 4]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_request_waits_in_each_way_at_once(
    home: Running, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """For the end of the round, for a thread and for an fsync, whose failure is of its own log."""
    await home.topics.create("flushed", 1, {"flush.messages": "1"})
    caller = await home.call()
    if fails:
        install(monkeypatch).fail("fsync", path="flushed-0/0")
    one = bytes(make_batch(1, timestamp=now()))
    large = bytes(make_batch(make_rows(1, 20_000), timestamp=now()))
    batches = {"t": one, "flushed": one, "packed": large}
    topics: list[Any] = [(name, [(0, batch)]) for name, batch in batches.items()]
    requests = [produce(), request_entity(9, 1, 1000, None, topics)]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    first, second = [rows_of(await within(caller.receive(each), "an answer")) for each in requests]

    ok = ErrorCode.none
    assert first == [(ok, 0)]
    assert second == [(ok, 2), FAILED if fails else (ok, 0), (ok, 0)]
    assert home.topics.logs["t", 0].log_end_offset == 3


@pytest.mark.parametrize("last", [(), (produce(make_batch(make_rows(1, 20_000)), topic="packed"),)])
async def test_a_failed_write_is_answered_to_each_of_them(
    home: Running, monkeypatch: pytest.MonkeyPatch, last: Any
) -> None:
    """None is stored, and the connection stays."""
    caller = await home.call()
    await caller.ask(produce(make_producer_batch(0)))
    disk = install(monkeypatch)
    disk.fail("pwrite", path="t-0/0", times=1)
    requests = [*(produce(make_producer_batch(each)) for each in (1, 2, 3)), *last, produce()]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    answers = [await within(caller.receive(each), "an answer") for each in requests]

    assert [rows_of(each) for each in answers] == [[FAILED]] * len(requests)
    assert all("log directory" in text for each in answers for text in messages_of(each))
    log = home.topics.logs["t", 0]
    assert log.log_end_offset == 1
    assert log.producers.producers[4000].next_sequence == 1
    assert rows_of(await caller.ask(produce(None, 1))) == [FAILED]
    assert (await caller.ask(latest())).topics[0].partitions[0].offset == 1


async def test_each_learns_of_its_own_batch(home: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two connections in a round, one has a batch that was written before the disk failed."""
    callers = [await home.call() for _ in range(2)]
    requests = [produce(None, 1), produce(None, 0)]
    for last in [False] * 10 + [True]:  # a client that was alone at first waits for others again
        if last:
            install(monkeypatch).fail("pwrite", path="t-0/0", times=1)
        for caller, request in zip(callers, requests, strict=True):
            await caller.client.send(caller.frame(request))
        answers = [
            rows_of(await within(caller.receive(request), "an answer"))
            for caller, request in zip(callers, requests, strict=True)
        ]

    assert answers == [[(ErrorCode.none, 20)], [FAILED]]
    assert home.topics.logs["t", 0].log_end_offset == 20


@pytest.fixture
async def two_disks(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with a topic in each of two log directories."""
    paths = [tmp_path / name for name in ("a", "b")]
    for each in paths:
        each.mkdir()
    async with running(tmp_path, f"log.dirs={paths[0]},{paths[1]}") as started:
        for name in ("left", "right"):
            await started.topics.create(name, 1, {})
        yield started


def folder_of(home: Running, topic: str) -> str:
    """Return a part of the paths of a topic's log that no other topic's have."""
    return f"{home.topics.logs[topic, 0].path.parent.name}/{topic}-0/"


async def test_a_disk_that_fails_at_the_end_of_a_round(
    two_disks: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each client is answered what came of its batch, in order, and both are served on."""
    home = two_disks
    callers = [await home.call() for _ in range(2)]
    names = ("left", "right")
    assert len({home.topics.logs[name, 0].directory.path for name in names}) == 2
    one = [produce(None, topic=name) for name in names]
    for _ in range(10):
        for caller, request in zip(callers, one, strict=True):
            await caller.client.send(caller.frame(request))
        for caller, request in zip(callers, one, strict=True):
            await within(caller.receive(request), "an answer")
    disk = install(monkeypatch)
    disk.fail("pwrite", path=folder_of(home, "left"), times=1)
    both = request_entity(
        9, 1, 1000, None, [(name, [(0, bytes(make_batch(2, timestamp=now())))]) for name in names]
    )
    answers: list[list[Any]] = [[], []]
    requests = [[request, both, latest(), request] for request in one]
    for caller, mine in zip(callers, requests, strict=True):
        await caller.client.send(b"".join(map(caller.frame, mine)))
    for caller, mine, seen in zip(callers, requests, answers, strict=True):
        seen += [await within(caller.receive(each), "an answer") for each in mine]

    written = sorted(rows_of(answers[1][0]) + rows_of(answers[1][3]))
    assert [code for code, _ in written] == [ErrorCode.none] * 2
    assert [rows_of(answers[0][place]) for place in (0, 3)] == [[FAILED]] * 2
    told = [rows_of(seen[1]) for seen in answers]
    assert [rows[0] for rows in told] == [FAILED] * 2
    offsets = sorted([*(each for _, each in written), *(rows[1][1] for rows in told)])
    assert offsets == [20, 22, 24, 26]
    assert [home.topics.logs[name, 0].log_end_offset for name in names] == [20, 28]
    assert rows_of(await callers[0].ask(one[1])) == [(ErrorCode.none, 28)]
    assert rows_of(await callers[1].ask(one[0])) == [FAILED]


async def test_without_acknowledgement_a_failed_write_closes(
    two_disks: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answers before it leave first, and other connections are served."""
    home = two_disks
    caller, other = [await home.call() for _ in range(2)]
    await caller.ask(produce(topic="left"))
    disk = install(monkeypatch)
    disk.fail("pwrite", path=folder_of(home, "left"), times=1)
    first = produce(topic="right")
    requests = [first, produce(topic="left", acks=0), produce(topic="right")]
    await caller.client.send(b"".join(map(caller.frame, requests)))

    assert rows_of(await within(caller.receive(first), "an answer")) == [(ErrorCode.none, 0)]
    assert await caller.client.is_closed()
    assert any("acks=0 and partition 0 of left failed" in each for each in caplog.messages)
    assert rows_of(await other.ask(first))[0][0] is ErrorCode.none


async def test_answers_before_a_failed_one_leave_before_it_closes(
    two_disks: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if an append behind it wrote, and a fetch with records is the last of the turn."""
    home = two_disks
    caller = await home.call()
    await caller.ask(produce(make_producer_batch(0), topic="left"))
    await caller.ask(produce(topic="right"))
    disk = install(monkeypatch)
    disk.fail("pwrite", path=folder_of(home, "left"), times=1)
    wanted = FetchPartition(0, -1, 0, -1, -1, 1 << 20)
    fetch = fetch_entity(12, FetchRequest(topics=[("right", [wanted])]))
    requests = [
        latest(),
        produce(make_producer_batch(1), topic="left", acks=0),
        produce(make_producer_batch(7), topic="left"),  # what waits is written before it is judged
        fetch,
    ]
    await caller.client.send(b"".join(map(caller.frame, requests)))

    first = await within(caller.receive(requests[0]), "an answer")
    assert first.topics[0].name == "t"
    assert await caller.client.is_closed()


async def test_the_last_of_a_turn_is_written_with_those_before(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five requests that came together are one write, whether or not others may come."""
    caller = await home.call()
    await caller.ask(produce())  # the first batch of a segment is written alone
    disk = install(monkeypatch)
    requests = [produce() for _ in range(5)]
    await caller.client.send(b"".join(map(caller.frame, requests)))
    answers = [await within(caller.receive(each), "an answer") for each in requests]

    assert [rows_of(each)[0][1] for each in answers] == [2, 4, 6, 8, 10]
    assert _writes(disk) == ["t-0/00000000000000000000.log"]


async def test_a_large_request_is_written_before_it_is_answered(home: Running) -> None:
    """It has memory of its own, which the next one gets, while small ones wait in their round."""
    small, large = [await home.call() for _ in range(2)]
    rows = make_rows(1, 200_000)
    requests = [produce(make_batch(1, timestamp=now())), produce(make_batch(rows, timestamp=now()))]
    ends = []
    for _ in range(10):
        frame = large.frame(requests[1])
        await large.client.send(frame[:-1])
        await asyncio.sleep(0)
        await small.client.send(small.frame(requests[0]))
        await large.client.send(frame[-1:])
        answered = rows_of(await within(large.receive(requests[1]), "an answer"))
        ends.append((answered[0][1], home.topics.logs["t", 0].log_end_offset))
        await within(small.receive(requests[0]), "an answer")

    assert all(offset < end for offset, end in ends)
    log = home.topics.logs["t", 0]
    assert log.log_end_offset == 20
    assert len(offsets_in(bytes_of(log, 0))) == 20


async def test_connections_share_their_writes(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each client has the offsets of its own batches, which a few calls wrote."""
    disk = install(monkeypatch)
    callers = [await home.call() for _ in range(4)]
    offsets = []
    for _ in range(20):
        requests = [produce(make_batch(1 + each, timestamp=now()), 0, 1) for each in range(4)]
        for caller, request in zip(callers, requests, strict=True):
            await caller.client.send(caller.frame(request))
        for records, (caller, request) in enumerate(zip(callers, requests, strict=True), 1):
            answer = rows_of(await within(caller.receive(request), "an answer"))
            offsets.append((answer[0][1], records))
            assert answer == [(ErrorCode.none, offsets[-1][0])] * 2

    ends = [0]
    for offset, records in sorted(offsets):
        assert offset == ends[-1]
        ends.append(offset + records)
    logs = home.topics.logs
    assert logs["t", 0].log_end_offset == logs["t", 1].log_end_offset == ends[-1] == 200
    assert offsets_in(bytes_of(logs["t", 0], 0)) == ends[:-1]
    assert 2 * 20 <= len(_writes(disk)) < 2 * 60  # one by one they would be 2 * 80


async def test_others_see_what_was_answered(home: Running) -> None:
    """Asked in the same moment, the end of a log is where the written bytes end."""
    writer, reader = [await home.call() for _ in range(2)]
    for number in range(1, 30):
        request = produce(make_batch(1, timestamp=now()))
        await writer.client.send(writer.frame(request))
        await reader.client.send(reader.frame(latest()))
        seen = (await within(reader.receive(latest()), "an end")).topics[0].partitions[0].offset
        answer = rows_of(await within(writer.receive(request), "an answer"))

        assert answer == [(ErrorCode.none, number - 1)]
        assert seen in {number - 1, number}


async def test_a_failed_write_is_answered_to_nobody_as_done(
    home: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that wait for it are refused; a client that has asked for something else is served."""
    disk = install(monkeypatch)
    callers = [await home.call() for _ in range(4)]
    requests = [produce(), produce(None, 1), latest(), produce()]
    for _ in range(3):
        for caller, request in zip(callers, requests, strict=True):
            await caller.client.send(caller.frame(request))
        for caller, request in zip(callers, requests, strict=True):
            await within(caller.receive(request), "an answer")
    end = home.topics.logs["t", 0].log_end_offset
    disk.fail("pwrite", path="t-0/0", times=1)
    for caller, request in zip(callers, requests, strict=True):
        await caller.client.send(caller.frame(request))

    served = await within(callers[2].receive(latest()), "an end")
    assert served.topics[0].partitions[0].error_code is ErrorCode.none
    for each in (0, 3):
        assert rows_of(await within(callers[each].receive(produce()), "an answer")) == [FAILED]
    assert home.topics.logs["t", 0].log_end_offset == end
