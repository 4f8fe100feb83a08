"""The periodic tasks: what each step does, and that they let others run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.broker.process.housekeeping import Housekeeping
from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock, set_seconds
from tests.support.logs import ORDERS, TOPIC_ID, validated
from tests.support.waiting import give_turns_until, within

SERVER = ServerConfig(log_initial_task_delay_ms=0)


@pytest.fixture
def clock() -> FakeClock:
    """The time of the logs."""
    return FakeClock(TIMESTAMP)


@pytest.fixture
def logs(tmp_path: Path, clock: FakeClock) -> Iterator[LogManager]:
    """An empty log directory."""
    manager = LogManager([tmp_path], SERVER, lambda _: TopicConfig(), clock)
    manager.load()
    yield manager
    manager.close()


@pytest.fixture
def housekeeping(logs: LogManager, clock: FakeClock) -> Housekeeping:
    """The tasks, not running."""
    return Housekeeping(logs, lambda: SERVER, clock)


def _create(logs: LogManager, config: TopicConfig) -> Log:
    log = logs.create(ORDERS, TOPIC_ID, config)
    log.append(validated(make_batch()))
    return log


def _do(logs: LogManager, step: Iterator[None]) -> None:
    for _ in step:
        pass
    logs.background.drain()


def test_retention_deletes(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock, tmp_path: Path
) -> None:
    """Old segments go, and their files after the delay."""
    log = _create(logs, TopicConfig(retention_ms=1_000, file_delete_delay_ms=500))
    clock.advance(1_001)

    _do(logs, housekeeping.apply_retention())
    renamed = len(list((tmp_path / "orders-0").glob("*.deleted")))
    clock.advance(500)
    _do(logs, housekeeping.run_deletions())

    assert (log.log_start_offset, renamed) == (1, 3)
    assert not list((tmp_path / "orders-0").glob("*.deleted"))


def test_times_of_many_segments_are_read_one_by_one(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """After a start they are not in memory; others are served between any two."""
    log = _create(logs, TopicConfig(retention_ms=1_000))
    for _ in range(5):
        log.roll()
        log.append(validated(make_batch()))
    clock.advance(1_001)
    steps = housekeeping.apply_retention()

    for _ in log.segments:
        next(steps)
        assert log.log_start_offset == 0
    _do(logs, steps)

    assert log.log_start_offset == 6


def test_a_full_disk_has_what_may_go_at_once(
    logs: LogManager, clock: FakeClock, tmp_path: Path
) -> None:
    """Whose records were deleted to make room does not wait for the next time of retention."""
    log = _create(logs, TopicConfig(file_delete_delay_ms=500))
    log.roll()
    log.delete_records(1)
    short_of_room = ServerConfig(log_dirs_reserve_bytes=1 << 60)
    at_ease = Housekeeping(logs, lambda: SERVER, clock)
    short = Housekeeping(logs, lambda: short_of_room, clock)

    _do(logs, at_ease.check_directories())
    _do(logs, at_ease.check_directories())
    before = list((tmp_path / "orders-0").glob("*.deleted"))
    _do(logs, short.check_directories())
    _do(logs, short.check_directories())

    assert before == []
    assert len(list((tmp_path / "orders-0").glob("*.deleted"))) == 3


def test_compacted_logs_are_left_to_the_cleaner(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """Their retention follows a cleaning pass, as in Kafka."""
    log = _create(logs, TopicConfig(cleanup_policy=("compact", "delete"), retention_ms=0))
    clock.advance(1_000)

    _do(logs, housekeeping.apply_retention())

    assert log.log_start_offset == 0


def test_flush_ms_flushes_what_is_old(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """A log is flushed flush.ms after its last flush, and not if nothing was appended."""
    log = _create(logs, TopicConfig(flush_ms=200))

    _do(logs, housekeeping.flush_old())
    before = log.recovery_point
    clock.advance(200)
    _do(logs, housekeeping.flush_old())
    flushed_at = log.last_flush_ms
    clock.advance(500)
    _do(logs, housekeeping.flush_old())

    assert (before, log.recovery_point) == (0, 1)
    assert log.last_flush_ms == flushed_at


def test_without_flush_ms_nothing_is_flushed(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """The default leaves it to the operating system."""
    log = _create(logs, TopicConfig())
    clock.advance(1 << 40)

    _do(logs, housekeeping.flush_old())

    assert log.recovery_point == 0


def test_checkpoints_are_written(
    logs: LogManager, housekeeping: Housekeeping, tmp_path: Path
) -> None:
    """Each of the three has its step."""
    log = _create(logs, TopicConfig())
    log.flush()
    log.roll()
    log.delete_records(1)

    _do(logs, housekeeping.checkpoint_recovery_points())
    _do(logs, housekeeping.checkpoint_log_starts())
    _do(logs, housekeeping.checkpoint_high_watermarks())

    for name in (files.RECOVERY_POINTS, files.LOG_START_OFFSETS, files.HIGH_WATERMARKS):
        assert (tmp_path / name).read_text() == "0\n1\norders 0 1\n"


def test_silent_producers_are_forgotten(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """After producer.id.expiration.ms their state goes."""
    log = _create(logs, TopicConfig())
    log.append(validated(make_batch(producer_id=7, producer_epoch=0, base_sequence=0)))
    clock.advance(SERVER.producer_id_expiration_ms)

    _do(logs, housekeeping.remove_expired_producers())

    assert not log.producers.producers


async def test_producers_are_looked_for_at_their_own_interval(
    logs: LogManager, clock: FakeClock
) -> None:
    """The first time, too: log.initial.task.delay.ms is not for them, as in Kafka."""
    server = ServerConfig(
        log_initial_task_delay_ms=3_600_000, producer_id_expiration_check_interval_ms=1
    )
    log = _create(logs, TopicConfig())
    log.append(validated(make_batch(producer_id=7, producer_epoch=0, base_sequence=0)))
    clock.advance(server.producer_id_expiration_ms)
    running = asyncio.create_task(Housekeeping(logs, lambda: server, clock).run())

    await give_turns_until(
        lambda: log.producers.producers, "no producer that is known", lambda known: not known
    )
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_an_offline_log_does_not_stop_the_others(
    logs: LogManager, housekeeping: Housekeeping, clock: FakeClock
) -> None:
    """Every task goes on past a directory that failed."""
    log = _create(logs, TopicConfig(retention_ms=0, flush_ms=0))
    clock.advance(10_000)
    log.directory.fail(OSError("I/O error"))

    for step in (
        housekeeping.apply_retention,
        housekeeping.flush_old,
        housekeeping.checkpoint_recovery_points,
        housekeeping.remove_expired_producers,
    ):
        _do(logs, step())

    assert logs.background.failures == 0


async def test_work_is_done_in_slices(
    housekeeping: Housekeeping, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else runs whenever a millisecond has gone by."""
    set_seconds(monkeypatch, clock.monotonic)
    turns = 0
    seen = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def work() -> Iterator[None]:
        for _ in range(6):
            clock.advance(0.6)
            seen.append(turns)
            yield

    task = asyncio.create_task(other())
    await housekeeping.run_in_slices(work())
    task.cancel()

    firsts, seconds = seen[::2], seen[1::2]
    assert firsts == seconds
    assert firsts == sorted(set(firsts))


async def test_tasks_run_until_cancelled_and_survive_a_failure(
    logs: LogManager,
    housekeeping: Housekeeping,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A step that fails is reported and counted; the other tasks have run."""
    _create(logs, TopicConfig())
    done = asyncio.Event()

    def checkpoint(name: str) -> None:
        if name == files.LOG_START_OFFSETS:
            raise ValueError("broken")
        if name == files.HIGH_WATERMARKS:
            done.set()

    monkeypatch.setattr(logs, "checkpoint", checkpoint)
    running = asyncio.create_task(housekeeping.run())

    await within(done.wait(), "the checkpoint of high watermarks")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert housekeeping.failures == 1
    assert "housekeeping task failed" in caplog.text
