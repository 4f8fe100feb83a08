"""Members of a share group acquire records, and say what became of them."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from siltstone.broker.share.live import LiveQueue
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import CoordinatorNotAvailable, ErrorCode
from siltstone.protocol.messages.share_fetch import ShareFetchResponse
from siltstone.protocol.parts import FileSlice
from siltstone.protocol.records.build import ABORT, COMMIT, build_marker
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from tests.support.appending import append, append_unchecked
from tests.support.batches import TIMESTAMP
from tests.support.clock import seconds_by
from tests.support.logs import validated
from tests.support.services import ServicesOnDisk
from tests.support.share_members import GROUP, ShareMember, acquired, make_queue
from tests.support.waiting import give_turns_until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LOCK_MS = 30_000


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """A broker with few partitions of the state of queues."""
    services = await ServicesOnDisk(
        tmp_path, share_coordinator_state_topic_num_partitions="1"
    ).open()
    yield services
    await services.close()


async def test_records_are_given_as_stored_batches_and_worked_off(home: ServicesOnDisk) -> None:
    """The bytes are a range of the log; what is accepted does not come again."""
    topic, log = await make_queue(home)
    for _ in range(3):
        append(log, 4)
    member = ShareMember(home, [topic])

    response = await member.fetch(max_records=5)

    (row,) = response.responses[0].partitions
    read = row.records
    assert isinstance(read, FileSlice)
    assert files.read_at(read.file.fileno(), read.size, read.position) == _stored(log, 0, 8)
    assert acquired(response) == [(0, 7, 1)]
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    assert await member.acknowledge(0, 7, [ACCEPT]) == 0
    assert await member.acquire() == [(8, 11, 1)]


async def test_a_record_belongs_to_one_member(home: ServicesOnDisk) -> None:
    """A second member gets the next records, and may not acknowledge those of the first."""
    topic, log = await make_queue(home)
    append(log, 4)
    append(log, 4)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")

    assert await one.acquire(max_records=1) == [(0, 3, 1)]
    assert await other.acquire(max_records=1) == [(4, 7, 1)]
    assert await other.acknowledge(0, 3, [ACCEPT]) == ErrorCode.invalid_record_state


async def test_a_released_record_comes_again_up_to_the_limit(home: ServicesOnDisk) -> None:
    """Each delivery is counted; after the last one the record is archived."""
    topic, log = await make_queue(home)
    append(log, 1)
    append(log, 1)
    member = ShareMember(home, [topic])
    for times in range(1, 6):
        assert (await member.acquire(max_records=1))[0] == (0, 0, times)
        assert await member.acknowledge(0, 0, [RELEASE]) == 0

    assert await member.acquire(max_records=1) == [(1, 1, 1)]


async def test_a_lock_that_runs_out_gives_the_record_to_another(home: ServicesOnDisk) -> None:
    """The fetch of the other member waits meanwhile; the timer wakes it."""
    topic, log = await make_queue(home)
    append(log, 3)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    assert await one.acquire() == [(0, 2, 1)]
    waiting = other.fetch_later()
    await give_turns_until(lambda: _is_waiting(home), "the other waits")

    home.clock.advance(LOCK_MS)
    await home.services.groups().fire_timers()

    assert acquired(await waiting) == [(0, 2, 2)]
    assert await one.acknowledge(0, 2, [ACCEPT]) == ErrorCode.invalid_record_state


async def test_a_renewed_lock_runs_out_later(home: ServicesOnDisk) -> None:
    """Only the renewed records stay with the member."""
    topic, log = await make_queue(home)
    append(log, 4)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    await one.acquire()
    home.clock.advance(LOCK_MS / 2)
    assert await one.acknowledge(0, 1, [RENEW], is_renew_ack=True) == 0

    home.clock.advance(LOCK_MS / 2)
    await home.services.groups().fire_timers()

    assert await other.acquire() == [(2, 3, 2)]
    assert await one.acknowledge(0, 1, [ACCEPT]) == 0


async def test_a_fetch_that_waits_is_woken_by_a_produce(home: ServicesOnDisk) -> None:
    """Of two members that wait, the first one gets the records."""
    topic, log = await make_queue(home)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    first, second = one.fetch_later(), other.fetch_later()
    await give_turns_until(lambda: _is_waiting(home, 2), "both wait")

    append(log, 2)

    assert acquired(await first) == [(0, 1, 1)]
    append(log, 2)
    assert acquired(await second) == [(2, 3, 1)]


async def test_the_first_in_the_line_reads_before_the_next_one_looks(home: ServicesOnDisk) -> None:
    """Also when each fetch lets others be served wherever it may."""
    topic, log = await make_queue(home)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    with seconds_by(count().__next__):  # each share of the loop is used up at once
        first, second = one.fetch_later(), other.fetch_later()
        await give_turns_until(lambda: _is_waiting(home, 2), "both wait")

        append(log, 2)

        assert acquired(await first) == [(0, 1, 1)]
        append(log, 2)
        assert acquired(await second) == [(2, 3, 1)]


async def test_a_fetch_that_waits_is_woken_by_a_release(home: ServicesOnDisk) -> None:
    """The records come with an acknowledgement of another member."""
    topic, log = await make_queue(home)
    append(log, 2)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    await one.acquire()
    waiting = other.fetch_later()
    await give_turns_until(lambda: _is_waiting(home), "the other waits")

    await one.acknowledge(0, 1, [RELEASE])

    assert acquired(await waiting) == [(0, 1, 2)]


async def test_a_fetch_that_waits_is_woken_by_the_deletion_of_its_topic(
    home: ServicesOnDisk,
) -> None:
    """The partition has the error, and its session goes on."""
    topic, _ = await make_queue(home)
    member = ShareMember(home, [topic])
    waiting = member.fetch_later()
    await give_turns_until(lambda: _is_waiting(home), "it waits")

    await home.services.topics.delete(topic)

    async with asyncio.timeout(20):  # it would wait for a minute
        assert _codes(await waiting) == [ErrorCode.unknown_topic_or_partition]
    assert _codes(await member.fetch()) == [ErrorCode.unknown_topic_or_partition]


async def test_a_fetch_that_waits_is_answered_when_the_broker_stops(home: ServicesOnDisk) -> None:
    """A stop does not wait for it; later fetches are answered at once."""
    topic, _ = await make_queue(home)
    member = ShareMember(home, [topic])
    waiting = member.fetch_later()
    await give_turns_until(lambda: _is_waiting(home), "it waits")

    home.services.share_partitions().end_waiting()

    assert acquired(await waiting) == []
    assert acquired(await member.fetch_later()) == []


async def test_a_session_that_ends_releases_its_records(home: ServicesOnDisk) -> None:
    """They come again with a higher count."""
    topic, log = await make_queue(home)
    append(log, 2)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")
    await one.acquire()

    await one.close()

    assert await other.acquire() == [(0, 1, 2)]


async def test_what_cannot_be_written_does_not_count(home: ServicesOnDisk) -> None:
    """The member keeps its records, and may say it again."""
    topic, log = await make_queue(home)
    append(log, 2)
    member = ShareMember(home, [topic])
    await member.acquire()
    states = home.services.share_states()
    with patch.object(states, "write", side_effect=CoordinatorNotAvailable):
        code = await member.acknowledge(0, 1, [ACCEPT])

    assert code == ErrorCode.coordinator_not_available
    assert await member.acknowledge(0, 1, [ACCEPT]) == 0


async def test_after_a_restart_nothing_accepted_comes_again(tmp_path: Path) -> None:
    """A record that was only acquired comes again."""
    home = await ServicesOnDisk(tmp_path).open()
    topic, log = await make_queue(home)
    for _ in range(3):
        append(log, 2)
    member = ShareMember(home, [topic])
    await member.acquire()
    await member.acknowledge(2, 3, [ACCEPT])
    await home.close()
    home = await ServicesOnDisk(tmp_path).open()

    told = await ShareMember(home, [home.services.topics.topics["jobs"]]).acquire()

    assert [each[:2] for each in told] == [(0, 1), (4, 5)]
    await home.close()


async def test_acknowledgements_come_with_a_fetch(home: ServicesOnDisk) -> None:
    """They count before the records are acquired; the row has the error of a wrong one."""
    topic, log = await make_queue(home)
    append(log, 2)
    append(log, 2)
    member = ShareMember(home, [topic])
    await member.acquire(max_records=1)

    response = await member.fetch(acknowledged=[(0, 1, [RELEASE])], max_records=1)
    assert acquired(response) == [(0, 1, 2)]

    response = await member.fetch(acknowledged=[(2, 3, [ACCEPT])], max_records=1)
    (row,) = response.responses[0].partitions
    assert row.acknowledge_error_code == ErrorCode.invalid_request
    assert acquired(response) == [(2, 3, 1)]


async def test_deleted_records_are_passed_over(home: ServicesOnDisk) -> None:
    """The queue begins where the log begins; a fetch that meets the gap comes back empty."""
    topic, log = await make_queue(home)
    append(log, 4)
    append(log, 4)
    member = ShareMember(home, [topic])
    log.delete_records(6)

    assert await member.acquire() == []
    assert await member.acquire() == [(6, 7, 1)]


async def test_only_committed_records_are_given_if_the_group_asks_for_that(
    home: ServicesOnDisk,
) -> None:
    """Batches of an aborted transaction are archived; the marker comes with its neighbours."""
    await home.services.settings.alter_group(GROUP, {"share.isolation.level": "read_committed"})
    topic, log = await make_queue(home)
    append(log, 2)
    _transact(log, ABORT)
    _transact(log, COMMIT)
    append(log, 1)

    told = await ShareMember(home, [topic]).acquire()

    assert told == [(0, 1, 1), (3, 6, 1)]


async def test_a_limited_fetch_gets_no_more_records_than_it_wants(home: ServicesOnDisk) -> None:
    """The rest of the batch is for the next member (KIP-1206)."""
    topic, log = await make_queue(home)
    append(log, 10)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")

    assert await one.acquire(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert await other.acquire(max_records=4, share_acquire_mode=1) == [(3, 6, 1)]


async def test_no_more_records_are_in_flight_than_allowed(home: ServicesOnDisk) -> None:
    """A fetch beyond that waits until others are done."""
    await home.services.settings.alter_group(GROUP, {"share.partition.max.record.locks": "100"})
    topic, log = await make_queue(home)
    for _ in range(20):
        append(log, 10)
    one, other = ShareMember(home, [topic], "one"), ShareMember(home, [topic], "other")

    assert await one.acquire(batch_size=100) == [(0, 99, 1)]
    assert await other.acquire(max_wait_ms=1) == []
    await one.acknowledge(0, 9, [ACCEPT])
    assert await other.acquire() == [(100, 109, 1)]


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 4), ("by_duration:PT1H", 2)]
)
async def test_a_new_queue_begins_where_its_group_says(
    home: ServicesOnDisk, reset: str, first: int
) -> None:
    """By the state a queue begins nowhere yet."""
    await home.services.settings.alter_group(GROUP, {"share.auto.offset.reset": reset})
    topic, log = await make_queue(home, start=-1)
    now = home.clock.now_ms()
    append(log, 2, timestamp=now - 7_200_000)
    append(log, 2, timestamp=now)
    member = ShareMember(home, [topic])
    await member.acquire(max_records=1)
    append(log, 2, timestamp=now)

    live = _live(home)

    assert live.queue.start_offset == first


async def test_the_epochs_of_a_session_are_checked(home: ServicesOnDisk) -> None:
    """An epoch that is not the next one is refused, and so is a member without a session."""
    topic, _ = await make_queue(home)
    member = ShareMember(home, [topic])
    await member.fetch()
    member.epoch = 5
    assert (await member.fetch()).error_code == ErrorCode.invalid_share_session_epoch
    assert (await member.say([])).error_code == ErrorCode.invalid_share_session_epoch
    member.epoch = 0
    assert (await member.say([])).error_code == ErrorCode.invalid_share_session_epoch
    stranger = ShareMember(home, [topic], "stranger")
    for epoch in (-1, 1):
        stranger.epoch = epoch
        assert (await stranger.fetch()).error_code == ErrorCode.share_session_not_found


async def test_there_are_only_so_many_sessions(tmp_path: Path) -> None:
    """A refused member is answered when its fetch would have ended."""
    home = await ServicesOnDisk(tmp_path, group_share_max_share_sessions="1").open()
    topic, _ = await make_queue(home)
    await ShareMember(home, [topic], "one").fetch()

    response = await ShareMember(home, [topic], "other").fetch()

    assert response.error_code == ErrorCode.share_session_limit_reached
    await home.close()


def _transact(log: Log, outcome: int) -> None:
    """Append a transaction of one record and its marker."""
    producer = 7 + outcome
    append_unchecked(
        log, 1, flags=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=0
    )
    marker = build_marker(0, TIMESTAMP, outcome, 0, producer_id=producer, producer_epoch=0)
    log.append(validated(marker), Origin.COORDINATOR)


def _live(home: ServicesOnDisk) -> LiveQueue:
    (live,) = home.services.share_partitions().live.values()
    return live


def _is_waiting(home: ServicesOnDisk, count: int = 1) -> bool:
    return any(
        len(each.waiters) == count for each in home.services.share_partitions().live.values()
    )


def _codes(response: ShareFetchResponse) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partitions]


def _stored(log: Log, first: int, end: int) -> bytes:
    read = log.read(first, 1 << 20, end)
    assert read is not None
    return files.read_at(read.slice.file.fileno(), read.slice.size, read.slice.position)
