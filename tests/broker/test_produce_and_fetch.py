"""Produce and Fetch over a socket, asked and read by kio: codes, order, waiting, sessions."""

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.protocol.records.batch import BatchHeader
from tests.support.appending import append
from tests.support.batches import Row, make_batch, make_producer_batch
from tests.support.clock import now
from tests.support.common_requests import metadata
from tests.support.fetch_requests import FetchRequest, request_entity
from tests.support.kio_messages import request as entity
from tests.support.produce_requests import request_entity as produce_entity
from tests.support.running import Caller, Client, Running, a_broker, running
from tests.support.waiting import equals, give_turns_until, within

broker = a_broker(
    "num.partitions=2", topics={"t": (2, {}), "c": (1, {"cleanup.policy": "compact"})}
)


@pytest.fixture
async def caller(broker: Running) -> Caller:
    """A connection."""
    return await broker.call()


def produce(
    records: dict[tuple[str, int], bytes | bytearray | None], *, acks: int = 1, version: int = 9
) -> Any:
    """Build a Produce request by names."""
    rows = [
        (topic, [(partition, None if data is None else bytes(data))])
        for (topic, partition), data in records.items()
    ]
    return produce_entity(version, acks, 1000, None, rows)


def fetch(
    wanted: dict[tuple[str, int], int],
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    isolation: int = 0,
) -> Any:
    """Build a Fetch request by names, version 12."""
    limits = {"log_start_offset": -1, "partition_max_bytes": partition_max_bytes}
    rows = {"current_leader_epoch": leader_epoch, **limits}
    return entity(
        1,
        12,
        max_wait=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            {"topic": topic, "partitions": [rows | {"partition": index, "fetch_offset": offset}]}
            for (topic, index), offset in wanted.items()
        ],
    )


SHORT: list[tuple[int, dict[str, Any]]] = [
    (0, {}),
    (7, {"leader_epoch": 0}),
    (10, {"wait_ms": 60_000}),
    (0, {"max_bytes": 1}),
    (0, {"partition_max_bytes": 200}),
    (3, {"partition_max_bytes": 1, "min_bytes": 0}),
    (11, {"max_bytes": 80, "min_bytes": 1 << 20, "wait_ms": 60_000}),
]
"""Offsets and limits of fetches, of batches of less than 100 bytes."""
LARGE = fetch({("t", 0): 0}, max_bytes=16 << 20, partition_max_bytes=16 << 20)


def only(response: Any) -> Any:
    """Return the one partition of a response."""
    (topic,) = response.responses
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return partition


def partitions(response: Any) -> list[Any]:
    """Return all partitions of a Fetch response, in its order."""
    return [partition for topic in response.responses for partition in topic.partitions]


async def fill(caller: Caller, batches: int, topic: str = "t", rows: int = 1) -> list[bytes]:
    """Produce batches to partition 0 and return them as they must be stored."""
    stored = []
    for number in range(batches):
        batch = make_batch(rows, timestamp=now())
        produced = only(await caller.ask(produce({(topic, 0): batch})))
        assert (produced.error_code, produced.base_offset) == (0, number * rows)
        stored.append(
            produced.base_offset.to_bytes(8, "big")
            + bytes(batch[8:12])
            + bytes(4)
            + bytes(batch[16:])
        )
    return stored


async def test_what_was_produced_is_fetched_byte_for_byte(caller: Caller) -> None:
    """Only base offset and leader epoch are the broker's."""
    stored = await fill(caller, 5)
    fetched = only(await caller.ask(fetch({("t", 0): 0})))

    assert fetched.records == b"".join(stored)
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (
        5,
        5,
        0,
    )


async def test_an_offset_inside_a_batch_gives_the_whole_batch(caller: Caller) -> None:
    """The client drops what is before its offset; skipping the batch would stall it for ever."""
    stored = await fill(caller, 3, rows=10)
    fetched = only(await caller.ask(fetch({("t", 0): 15})))

    assert fetched.records == b"".join(stored[1:])


async def test_limits_cut_between_batches_but_give_one_at_least(caller: Caller) -> None:
    """The first partition with data makes progress; a later one that does not fit is empty."""
    stored = await fill(caller, 3)
    size = len(stored[0])
    await caller.ask(produce({("t", 1): make_batch(1, timestamp=now())}))
    tiny = only(await caller.ask(fetch({("t", 0): 0}, partition_max_bytes=1)))
    two = only(await caller.ask(fetch({("t", 0): 0}, partition_max_bytes=2 * size + 5)))
    both = await caller.ask(fetch({("t", 0): 0, ("t", 1): 0}, max_bytes=3 * size + 5))

    assert tiny.records == stored[0]
    assert two.records == b"".join(stored[:2])
    assert [len(partition.records) for partition in partitions(both)] == [3 * size, 0]


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (6, 1), (5, 0), (4, 0)])
async def test_offsets_out_of_range(caller: Caller, offset: int, code: int) -> None:
    """The end itself is in range: it has no records yet."""
    await fill(caller, 5)
    fetched = only(await caller.ask(fetch({("t", 0): offset})))

    assert fetched.error_code == code
    assert fetched.high_watermark == (-1 if code else 5)


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (1, 75)])
async def test_leader_epochs_are_compared(caller: Caller, epoch: int, code: int) -> None:
    """A client with news of a later leader must ask for metadata again."""
    assert only(await caller.ask(fetch({("t", 0): 0}, leader_epoch=epoch))).error_code == code


@pytest.mark.parametrize("isolation", [0, 1])
async def test_limits_and_offsets(caller: Caller, isolation: int) -> None:
    """Whole batches are read, one at the least."""
    (size,) = {len(batch) for batch in await fill(caller, 6, rows=2)}

    fetched = [
        only(await caller.ask(fetch({("t", 0): offset}, isolation=isolation, **limits)))
        for offset, limits in SHORT
    ]

    assert [len(one.records) // size for one in fetched] == [6, 3, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
@pytest.mark.parametrize(("offset", "code"), [(0, -1), (3, 0)])
async def test_fewer_bytes_than_none_can_not_be_read(
    caller: Caller, limit: str, offset: int, code: int
) -> None:
    """UNKNOWN_SERVER_ERROR as of Kafka, unless there is nothing to read."""
    await fill(caller, 3)
    limits: dict[str, Any] = {limit: -1}

    assert only(await caller.ask(fetch({("t", 0): offset}, **limits))).error_code == code


async def test_a_negative_limit_is_of_the_first_partition_alone(caller: Caller) -> None:
    """Nothing is left for the next ones, of which the first batch is read all the same."""
    await fill(caller, 1)
    answer = await caller.ask(fetch({("c", 0): 0, ("t", 0): 0}, max_bytes=-1))
    await fill(caller, 1, "c")
    refused = await caller.ask(fetch({("c", 0): 0, ("t", 0): 0}, max_bytes=-1))

    codes = [[each.error_code for each in partitions(one)] for one in (answer, refused)]
    assert codes == [[0, 0], [-1, 0]]
    assert [bool(partitions(one)[1].records) for one in (answer, refused)] == [True, True]


@pytest.mark.parametrize("isolation", [2, -1])
async def test_an_isolation_level_that_does_not_exist(caller: Caller, isolation: int) -> None:
    """The whole request is refused, to versions by name in each partition, too."""
    await fill(caller, 1)
    answer = await caller.ask(fetch({("t", 0): 0}, isolation=isolation))
    partition = only(answer)

    assert (answer.error_code, partition.error_code, partition.high_watermark) == (-1, -1, -1)
    assert (partition.aborted_transactions, partition.records) == ((), b"")


async def test_faults_before_the_isolation_level_are_told_first(caller: Caller) -> None:
    """A session that does not exist, and partitions of which no one is here."""
    lost = await caller.ask(fetch({("t", 0): 0}, isolation=2, session=(5, 1)))
    unknown = await caller.ask(fetch({("t", 9): 0}, isolation=2))

    assert (lost.error_code, lost.responses) == (70, ())
    assert (unknown.error_code, only(unknown).error_code) == (0, 3)


async def test_who_is_not_here_has_aborted_no_transactions(caller: Caller) -> None:
    """An empty list for an unknown partition, none for an offset out of range, as Kafka writes."""
    unknown = only(await caller.ask(fetch({("t", 9): 0})))
    outside = only(await caller.ask(fetch({("t", 0): 9})))

    assert (unknown.error_code, unknown.aborted_transactions) == (3, ())
    assert (outside.error_code, outside.aborted_transactions) == (1, None)


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("rows", [1, 200_000], ids=["inline", "on-a-thread"])
async def test_only_the_admin_client_produces_to_internal_topics(
    broker: Running, version: int, rows: int
) -> None:
    """By the name in that very request, whatever name the connection gave before."""
    internal = "__consumer_offsets"
    await broker.topics.create(internal, 1, {"cleanup.policy": "compact"})
    batch = make_batch([(b"k", b"v")] * rows, timestamp=now(), codec=1)
    caller = await broker.call()
    codes = []
    for before, client_id in [
        (None, "__admin_client"),
        ("__admin_client", "__admin-client"),
        ("__admin_client", None),
        ("other", "__admin_client"),
    ]:
        caller.client_id = before
        await caller.ask(metadata())
        caller.client_id = client_id
        answer = await caller.ask(produce({(internal, 0): batch}, version=version))
        codes.append(only(answer).error_code)

    assert codes == [0, 17, 17, 0]


async def test_who_sent_what_is_no_request_is_logged(
    broker: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """A head that is read the short way names its client, too."""
    caller = await broker.call()
    caller.client_id = "somebody"
    whole = caller.frame(produce({("t", 0): make_batch(1)}))[4:-20]
    await caller.client.send(len(whole).to_bytes(4, "big") + whole)

    assert await caller.client.is_closed()
    assert "api=Produce version=9 client='somebody'" in caplog.text


async def test_unknown_partitions_have_their_code(caller: Caller) -> None:
    """In Produce and in Fetch, beside good ones."""
    batch = make_batch(1, timestamp=now())
    produced = await caller.ask(produce({("t", 0): batch, ("t", 2): batch, ("no", 0): batch}))
    fetched = await caller.ask(fetch({("t", 0): 0, ("no", 0): 0}))

    produced_codes = [
        [each.error_code for each in topic.partition_responses] for topic in produced.responses
    ]
    assert produced_codes == [[0, 3], [3]]
    assert [partition.error_code for partition in partitions(fetched)] == [0, 3]


async def test_topic_ids_name_topics(broker: Running, caller: Caller) -> None:
    """Produce 13 and Fetch 17 by id; an unknown id is 100."""
    ids = {name: topic.id for name, topic in broker.topics.topics.items()}
    batch = bytes(make_batch(1, timestamp=now()))
    row = {"log_start_offset": -1, "partition_max_bytes": 1 << 20}
    for topic_id, code in ((ids["t"], 0), (uuid.uuid4(), 100)):
        request = produce_entity(13, -1, 1000, None, [(topic_id.bytes, [(0, batch)])])
        assert only(await caller.ask(request)).error_code == code
        topics = [{"topic_id": topic_id, "partitions": [row]}]
        fetched = await caller.ask(entity(1, 17, min_bytes=1, isolation_level=1, topics=topics))
        assert only(fetched).error_code == code
        assert fetched.responses[0].topic_id == topic_id


@pytest.mark.parametrize("acks", [2, -2, 77])
async def test_other_acks_are_refused(caller: Caller, acks: int) -> None:
    """Error 21, and nothing is written."""
    batch = make_batch(1, timestamp=now())
    produced = only(await caller.ask(produce({("t", 0): batch}, acks=acks)))

    assert (produced.error_code, produced.base_offset) == (21, -1)
    assert only(await caller.ask(fetch({("t", 0): 0}))).high_watermark == 0


async def test_acks_0_is_answered_by_nothing(broker: Running, caller: Caller) -> None:
    """The next answer on the wire is that of the next request; an error closes."""
    batch = make_batch(1, timestamp=now())
    await caller.client.send(caller.frame(produce({("t", 0): batch}, acks=0)))
    fetched = only(await caller.ask(fetch({("t", 0): 0}, wait_ms=5000)))
    bad = await broker.call()
    await bad.client.send(bad.frame(produce({("no", 0): batch}, acks=0)))

    assert fetched.high_watermark == 1
    assert await bad.client.is_closed()


async def test_a_null_key_on_a_compacted_topic_is_explained(caller: Caller) -> None:
    """Error 87 with the record's place and a sentence a person can act on."""
    rows: list[Row] = [(b"k", b"v"), (None, b"v")]
    produced = only(await caller.ask(produce({("c", 0): make_batch(rows, timestamp=now())})))

    assert produced.error_code == 87
    assert [error.batch_index for error in produced.record_errors] == [1]
    assert "key" in produced.error_message


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda batch: None, 87),
        (lambda batch: b"", 87),
        (lambda batch: batch[:40], 87),
        (lambda batch: batch[:-1], 87),
        (lambda batch: bytes(batch) * 2, 87),
        (lambda batch: bytes(batch[:16]) + b"\x01" + bytes(batch[17:]), 87),
        (lambda batch: bytes(batch[:30]) + b"!" + bytes(batch[31:]), 2),
    ],
)
async def test_broken_batches_are_refused(caller: Caller, damage: Any, code: int) -> None:
    """No batch, cut, two of them, an old magic, a flipped byte: an error, the connection stays."""
    batch = make_batch(3, timestamp=now())
    produced = only(await caller.ask(produce({("t", 0): damage(batch)})))

    assert produced.error_code == code
    assert only(await caller.ask(fetch({("t", 0): 0}))).high_watermark == 0


async def test_a_duplicate_returns_its_first_offset(caller: Caller) -> None:
    """Of five remembered batches; a gap in the sequence is 45."""
    batches = [bytes(make_producer_batch(number)) for number in range(5)]
    first = [only(await caller.ask(produce({("t", 0): batch}))) for batch in batches]
    again = [only(await caller.ask(produce({("t", 0): batch}))) for batch in batches]
    gap = only(await caller.ask(produce({("t", 0): make_producer_batch(9)})))

    assert [each.error_code for each in first] == [0, 0, 0, 0, 0]
    assert [each.base_offset for each in again] == [0, 1, 2, 3, 4]
    assert gap.error_code == 45
    assert only(await caller.ask(fetch({("t", 0): 0}))).high_watermark == 5


async def test_old_versions_are_served(caller: Caller) -> None:
    """Produce 7 has another encoding and no record errors."""
    batch = make_batch(1, timestamp=now())
    request = produce({("t", 0): batch}, version=7)

    assert only(await caller.ask(request)).base_offset == 0


async def test_a_long_poll_ends_with_an_append(broker: Running, caller: Caller) -> None:
    """The answer comes with the record, long before the wait is over."""
    other = await broker.call()
    request = fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=60_000)
    waiting = asyncio.create_task(caller.ask(request))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    await other.ask(produce({("t", 1): make_batch(1, timestamp=now())}))
    fetched = await within(waiting, "the parked fetch")

    assert [partition.high_watermark for partition in partitions(fetched)] == [0, 1]


async def test_a_request_that_waited_reads_what_has_changed(
    broker: Running, caller: Caller
) -> None:
    """Of what was read to its end before, only the partition that has grown is read again.

    The others get the reader of that one meanwhile: its end would show if they were read.
    """
    logs = broker.topics.logs
    wanted = {("t", 0): 0, ("t", 1): 0, ("c", 0): 0}
    waiting = asyncio.create_task(caller.ask(fetch(wanted, wait_ms=60_000)))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    grown = logs["t", 1]
    for place in wanted:
        logs[place].reader = grown.reader
    append(grown)
    fetched = await within(waiting, "the parked fetch")

    assert [partition.high_watermark for partition in partitions(fetched)] == [0, 1, 0]
    again = await caller.ask(fetch(wanted))  # which reads all
    assert [partition.high_watermark for partition in partitions(again)] == [1, 1, 1]


async def test_min_bytes_holds_an_answer_back(broker: Running, caller: Caller) -> None:
    """One small record is not enough; at the end of the wait it is answered all the same."""
    await fill(caller, 1)
    fetched = only(await caller.ask(fetch({("t", 0): 0}, wait_ms=30, min_bytes=10_000)))

    assert len(fetched.records) > 0
    assert broker.waiting.count == 0


async def test_a_deleted_topic_releases_who_waits_on_it(broker: Running, caller: Caller) -> None:
    """The long poll answers that the topic is unknown."""
    waiting = asyncio.create_task(caller.ask(fetch({("t", 0): 0}, wait_ms=60_000)))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    topics = broker.topics
    await topics.delete(topics.topics["t"])

    assert only(await within(waiting, "the parked fetch")).error_code == 3


ABSENT = [("no", 0), ("t", 2)]


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("absent", ABSENT)
async def test_an_absent_partition_ends_no_wait_of_others(
    broker: Running, caller: Caller, absent: tuple[str, int], epoch: int
) -> None:
    """It is told when the others have something, with a session and without."""
    request = fetch({absent: 0, ("t", 0): 0}, wait_ms=60_000, session=(0, epoch))
    waiting = asyncio.create_task(caller.ask(request))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    append(broker.topics.logs["t", 0])
    fetched = await within(waiting, "the parked fetch")

    assert [partition.error_code for partition in partitions(fetched)] == [3, 0]
    assert partitions(fetched)[1].records


async def test_an_absent_partition_of_a_session_ends_no_wait(
    broker: Running, caller: Caller
) -> None:
    """Though it is told again in each answer, as Kafka does."""
    full = await caller.ask(fetch({("no", 0): 0, ("t", 0): 0}, session=(0, 0)))
    waiting = asyncio.create_task(
        caller.ask(fetch({}, wait_ms=60_000, session=(full.session_id, 1)))
    )
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    append(broker.topics.logs["t", 0])
    fetched = await within(waiting, "the parked fetch")

    assert [partition.error_code for partition in partitions(fetched)] == [3, 0]


async def test_absent_topic_ids_end_no_wait_of_others(broker: Running, caller: Caller) -> None:
    """By ids as by names."""
    topic_id = broker.topics.topics["t"].key
    request = request_entity(
        17,
        FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            topics=[(b"x" * 16, [to_read(0)]), (topic_id, [to_read(0)])],
        ),
    )
    waiting = asyncio.create_task(caller.ask(request))
    await give_turns_until(lambda: broker.waiting.count, "a parked fetch")
    append(broker.topics.logs["t", 0])
    fetched = await within(waiting, "the parked fetch")

    assert [partition.error_code for partition in partitions(fetched)] == [100, 0]


def to_read(offset: int) -> FetchPartition:
    """Return what a request wants of partition 0."""
    return FetchPartition(0, -1, offset, -1, -1, 1 << 20)


@pytest.mark.parametrize(
    "wanted",
    [{("no", 0): 0, ("t", 2): 0}, {("no", 0): 0}, {("t", 0): 9, ("t", 1): 0}, {}],
    ids=["all absent", "one absent", "out of range", "none"],
)
@pytest.mark.parametrize("epoch", [-1, 0])
async def test_nothing_is_waited_for(
    broker: Running, caller: Caller, wanted: dict[tuple[str, int], int], epoch: int
) -> None:
    """Where nothing exists, or where an offset is out of range, the answer comes at once."""
    fetched = await within(
        caller.ask(fetch(wanted, wait_ms=60_000, session=(0, epoch))), "the answer"
    )

    assert [each.error_code for each in partitions(fetched)][:1] in ([3], [1], [])
    assert broker.waiting.count == 0


async def test_a_topic_that_goes_while_it_is_read_ends_the_wait(
    broker: Running, caller: Caller
) -> None:
    """Others of the request are not waited for, as where a log is read and fails."""
    broker.topics.logs["t", 0].abandon(broker.topics.logs["t", 0].path)

    fetched = await within(
        caller.ask(fetch({("t", 0): 1, ("t", 1): 0}, wait_ms=60_000)), "the answer"
    )

    assert partitions(fetched)[0].error_code
    assert broker.waiting.count == 0


async def test_a_full_fetch_of_nothing_makes_a_session(caller: Caller) -> None:
    """It may be given partitions later; a session that stays empty ends with the next request."""
    full = await caller.ask(fetch({}, session=(0, 0)))
    named = await caller.ask(fetch({("t", 0): 0}, session=(full.session_id, 1)))
    other = await caller.ask(fetch({}, session=(0, 0)))
    empty = await caller.ask(fetch({}, session=(other.session_id, 1)))

    assert full.session_id
    assert named.session_id == full.session_id
    assert len(partitions(named)) == 1
    assert other.session_id
    assert (empty.error_code, empty.session_id) == (0, 0)


async def test_a_session_answers_news_only(caller: Caller) -> None:
    """First everything, then what changed, then nothing."""
    full = await caller.ask(fetch({("t", 0): 0, ("t", 1): 0}, session=(0, 0)))
    await fill(caller, 1)
    news = await caller.ask(fetch({}, session=(full.session_id, 1)))
    moved = await caller.ask(fetch({("t", 0): 1}, session=(full.session_id, 2)))
    wrong = await caller.ask(fetch({}, session=(full.session_id, 9)))

    assert full.session_id
    assert len(partitions(full)) == 2
    assert [partition.partition_index for partition in partitions(news)] == [0]
    assert moved.responses == ()
    assert (wrong.error_code, wrong.session_id) == (71, 0)


async def test_pipelined_requests_are_answered_in_order(caller: Caller) -> None:
    """Fetches with file ranges between produces keep their places."""
    requests = []
    for number in range(50):
        requests.append(produce({("t", 0): make_batch(20, timestamp=now())}))
        requests.append(fetch({("t", 0): number * 20}))
    await caller.client.send(b"".join(caller.frame(request) for request in requests))
    answers = [only(await caller.receive(request)) for request in requests]

    assert [answer.base_offset for answer in answers[::2]] == list(range(0, 1000, 20))
    for number, answer in enumerate(answers[1::2]):
        assert BatchHeader.read(answer.records).base_offset == number * 20


async def fill_large(caller: Caller) -> bytes:
    """Produce 9 MB to partition 0, more than sockets hold, and return what a fetch answers."""
    for number in range(9):
        batch = make_batch([(b"k", random.Random(number).randbytes(10**6))], timestamp=now())
        await caller.ask(produce({("t", 0): batch}))
    records: bytes = only(await caller.ask(LARGE)).records
    assert len(records) > 9 * 10**6
    return records


async def test_large_and_small_answers_keep_their_order(caller: Caller) -> None:
    """Sender threads send the former, the loop the latter."""
    records = await fill_large(caller)
    requests = []
    for number in range(5):
        requests += [LARGE, produce({("t", 1): make_batch(1, timestamp=now())})]
        requests.append(fetch({("t", 1): number}))
    await caller.client.send(b"".join(caller.frame(request) for request in requests))
    answers = [only(await caller.receive(request)) for request in requests]

    assert [answer.records == records for answer in answers[::3]] == [True] * 5
    assert [answer.base_offset for answer in answers[1::3]] == list(range(5))
    for number, answer in enumerate(answers[2::3]):
        assert BatchHeader.read(answer.records).base_offset == number


async def test_clients_that_stall_or_leave_hold_nobody_up(tmp_path: Path) -> None:
    """A client that stops in the middle gets the rest when it reads again; there is one sender."""
    async with running(tmp_path, "num.network.threads=1") as broker:
        await broker.topics.create("t", 1, {})
        stalled, leaving, reading = [await broker.call() for _ in range(3)]
        records = await fill_large(reading)
        await stalled.client.send(stalled.frame(LARGE))
        for _ in range(3):
            await leaving.client.send(leaving.frame(LARGE))
            await leaving.client.receive()
        await leaving.client.send(leaving.frame(LARGE))
        await leaving.client.close()
        served = [only(await reading.ask(LARGE)).records for _ in range(3)]
        late = only(await stalled.receive(LARGE)).records
        connections = broker.listeners[0].connections

        async def connected() -> int:
            await reading.ask(fetch({("t", 0): 9}))
            return len(connections)

        await give_turns_until(connected, "two connections that are left", equals(2))

    assert [each == records for each in (*served, late)] == [True] * 4


@pytest.mark.slow
async def test_the_end_does_not_cut_who_reads_nor_wait_for_who_does_not(tmp_path: Path) -> None:
    """Answers on their way at the stop are sent to their end, within the time that is given."""
    async with running(tmp_path, "graceful.shutdown.timeout.ms=4000") as broker:
        await broker.topics.create("t", 1, {})
        records = await fill_large(await broker.call())
        (listener,) = broker.listeners
        stalled, reading = [
            Caller(Client(*await asyncio.open_connection("127.0.0.1", listener.port)))
            for _ in range(2)
        ]
        for each in (stalled, reading):
            await each.client.send(each.frame(LARGE))
        await give_turns_until(
            lambda: sum(not each.is_idle for each in listener.connections),
            "two connections at work",
            equals(2),
        )
        read = asyncio.create_task(reading.receive(LARGE))

    assert only(await read).records == records
    with pytest.raises(asyncio.IncompleteReadError):
        await stalled.client.receive()
    for each in (stalled, reading):
        await each.client.close()


async def test_metadata_makes_a_topic_for_produce(caller: Caller) -> None:
    """Auto-creation answers the ready topic at once."""
    answer = await caller.ask(metadata("new", create=True))

    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
        ("new", 0, 2)
    ]
    assert (
        only(await caller.ask(produce({("new", 1): make_batch(1, timestamp=now())}))).error_code
        == 0
    )
