"""Partitions that move to another log directory: what readers, writers and the disk see of it."""

import asyncio
import errno
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.states import State
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.log import pin_links
from siltstone.storage.log.log import Log
from siltstone.storage.moving.future_log import FutureLog
from tests.support.appending import append
from tests.support.batches import TIMESTAMP
from tests.support.faults import install
from tests.support.invariants import check_log
from tests.support.logs import bytes_of, offsets_in
from tests.support.moves import ORDERS, STALLED, Directories, copies, folders, open_files
from tests.support.waiting import equals, give_turns_until


def _fill(log: Log, segments: int = 3) -> None:
    for number in range(segments):
        if number:
            log.roll()
        append(log, 3, producer_id=7, producer_epoch=0, base_sequence=3 * number)


async def test_a_partition_moves(tmp_path: Path) -> None:
    """Records and offsets stay; the folder is in the other directory, and the old one goes."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        before = bytes_of(log, 0)
        snapshots = log.producers.snapshots
        await home.move()

        assert log.directory is home.other
        assert bytes_of(log, 0) == before
        assert snapshots == (3, 6)
        assert [each.name for each in home.path("orders-0").glob("*.snapshot")] != []
        assert folders(home.other) == ["orders-0"]
        assert [each.rpartition("-")[2] for each in folders(home.first)] == ["delete"]
        assert not (log.path / files.MOVED).exists()
        repeated = append(log, 3, producer_id=7, producer_epoch=0, base_sequence=6)
        assert (repeated.base_offset, repeated.duplicate) == (6, True)
        append(log, 3, producer_id=7, producer_epoch=0, base_sequence=9)
        check_log(log)
        home.clock.advance(60_000)
        home.services.logs.deletions.run_due()
        home.services.logs.background.drain()
        assert folders(home.first) == []
    async with Directories(tmp_path) as home:
        log = home.log()
        check_log(log)

        assert log.directory is home.other
        assert (log.log_end_offset, log.recovery_point, len(log.segments)) == (12, 12, 3)
        assert bytes_of(log, 0)[: len(before)] == before


async def test_a_moved_log_is_the_same_after_a_kill(tmp_path: Path) -> None:
    """Records appended after the move, and never flushed, are found in the new directory."""
    home = await Directories(tmp_path).open()
    log = await home.create()
    _fill(log)
    await home.move()
    append(log, 4)
    log.roll()
    append(log, 2)
    data = bytes_of(log, 0)
    home.crash()
    async with Directories(tmp_path) as home:
        log = home.log()
        check_log(log)

        assert log.directory is home.other
        assert bytes_of(log, 0) == data


async def test_checkpoints_follow(tmp_path: Path) -> None:
    """The offsets are in the files of the directory where the partition is, and only there."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        log.delete_records(1)
        log.flush()
        home.cleaner_checkpoint(home.first, 3)
        await home.move()
        home.services.logs.checkpoint(files.HIGH_WATERMARKS)
        home.services.logs.background.drain()
        names = (files.RECOVERY_POINTS, files.LOG_START_OFFSETS, files.HIGH_WATERMARKS)
        for name, offset in (*zip(names, (8, 1, 9), strict=True), (files.CLEANER_OFFSETS, 3)):
            assert OffsetCheckpoint(home.first.path, name).read() == {}, name
            assert OffsetCheckpoint(home.other.path, name).read() == {ORDERS: offset}, name


@asynccontextmanager
async def _before_its_end(
    home: Directories, log: Log, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Have a log moved, and keep the old folder until this ends."""
    may_end = threading.Event()
    monkeypatch.setattr(home.cleaning.manager, "move_checkpoint", lambda *_: may_end.wait())
    try:
        await home.ask(home.other)
        await give_turns_until(lambda: log.directory, "the copy in place", equals(home.other))
        yield
        assert len(home.services.moves) == 1
    finally:
        may_end.set()
    await home.settle()


async def test_a_copy_that_took_over_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the old folder is still to go, DescribeLogDirs has one row of the partition."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        append(log, 3)
        async with _before_its_end(home, log, monkeypatch):
            told = await home.describe()

    assert told == [{}, {ORDERS: (log.size, 0, False)}]


async def test_a_copy_that_took_over_goes_on_as_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints have what was flushed since, and nothing lags behind."""
    names = (files.RECOVERY_POINTS, files.HIGH_WATERMARKS)
    async with Directories(tmp_path) as home:
        log = await home.create()
        append(log, 3)
        async with _before_its_end(home, log, monkeypatch):
            append(log, 3)
            await home.io.run(log.flush)
            home.services.logs.checkpoint(files.RECOVERY_POINTS)
            home.services.logs.checkpoint(files.HIGH_WATERMARKS)
            home.services.logs.background.drain()
            lag = home.services.moves.max_lag
            written = [OffsetCheckpoint(home.other.path, name).read() for name in names]

    assert written == [{ORDERS: 5}, {ORDERS: 6}]
    assert lag == 0


async def test_a_move_under_way_is_described(tmp_path: Path) -> None:
    """DescribeLogDirs shows the copy with its lag; the directories' checkpoints both have it."""
    async with Directories(tmp_path, **STALLED) as home:
        log = await home.create()
        _fill(log)
        await home.ask(home.other)
        first, other = await home.describe()

        assert first == {ORDERS: (log.size, 0, False)}
        assert other == {ORDERS: (0, 9, True)}
        (name,) = folders(home.other)
        assert name.startswith("orders-0.")
        assert name.endswith("-future")
        assert home.cleaning.manager.states.get(ORDERS) is State.PAUSED
        assert home.cleaning.is_reserved(log)
        await home.go_on()
        first, other = await home.describe()

        assert (first, other) == ({}, {ORDERS: (log.size, 0, False)})
        assert home.cleaning.manager.states.get(ORDERS) is State.NONE


async def test_asking_again_changes_nothing(tmp_path: Path) -> None:
    """For the target it goes to already, or the place where it is."""
    async with Directories(tmp_path, **STALLED) as home:
        await home.create()
        append(home.log(), 3)
        await home.ask(home.first)
        assert not len(home.services.moves)
        await home.ask(home.other)
        before = folders(home.other)
        await home.ask(home.other)

        assert folders(home.other) == before
        assert len(home.services.moves) == 1


async def test_asking_for_where_it_is_cancels(tmp_path: Path) -> None:
    """The copy goes as a deleted partition does; the cleaner may have the log again."""
    async with Directories(tmp_path, **STALLED) as home:
        log = await home.create()
        append(log, 3)
        await home.ask(home.other)
        await home.ask(home.first)

        assert log.directory is home.first
        assert [each.rpartition("-")[2] for each in folders(home.other)] == ["delete"]
        assert home.cleaning.manager.states.get(ORDERS) is State.NONE
        assert await home.describe() == [{ORDERS: (log.size, 0, False)}, {}]
        home.services.logs.background.drain()
        assert OffsetCheckpoint(home.other.path).read() == {}


async def test_another_target_replaces_the_first(tmp_path: Path) -> None:
    """Of two wishes the last one counts; the copy of the first one goes."""
    async with Directories(tmp_path, 3, **STALLED) as home:
        log = await home.create()
        append(log, 3)
        third = home.services.logs.directories[2]
        await home.ask(home.other)
        await home.ask(third)
        await home.go_on()

        assert log.directory is third
        assert [each.rpartition("-")[2] for each in folders(home.other)] == ["delete"]


async def test_moves_wait_for_a_thread(tmp_path: Path) -> None:
    """num.replica.alter.log.dirs.threads are copied at a time, by name; a waiting one can end."""
    async with Directories(tmp_path, num_replica_alter_log_dirs_threads="1", **STALLED) as home:
        await home.services.topics.create("orders", 6, {})
        logs = [log for log in home.services.logs.all_logs() if log.directory is home.first]
        for log in reversed(logs):
            append(log, 3)
            await home.services.moves.alter(log.topic_partition, str(home.other.path))
        assert len(home.services.moves) == len(logs) == 3
        await home.services.moves.alter(logs[1].topic_partition, str(home.first.path))
        assert len(home.services.moves) == 2
        await home.go_on()

        assert [log.directory for log in logs] == [home.other, home.first, home.other]
        assert home.services.moves.counts.done == 2


async def test_deletion_ends_a_move(tmp_path: Path) -> None:
    """Both folders go, and the name is free for another topic."""
    async with Directories(tmp_path, **STALLED) as home:
        log = await home.create()
        append(log, 3)
        await home.ask(home.other)
        await home.services.topics.delete(home.services.topics.topics["orders"])

        assert not len(home.services.moves)
        for directory in (home.first, home.other):
            assert [each.rpartition("-")[2] for each in folders(directory)] == ["delete"]
        await home.services.topics.create("orders", 1, {})
        assert home.log().log_end_offset == 0


async def test_a_stop_in_the_middle(tmp_path: Path) -> None:
    """The copy stays, and the next start goes on with it where segments are whole."""
    async with Directories(tmp_path, **STALLED) as home:
        log = await home.create()
        _fill(log)
        data = bytes_of(log, 0)
        await home.ask(home.other)
        (name,) = folders(home.other)
    assert [each.name for each in home.paths[1].glob("*-future")] == [name]
    async with Directories(tmp_path) as home:
        await home.settle()

        assert home.log().directory is home.other
        assert bytes_of(home.log(), 0) == data


async def test_whole_segments_are_not_copied_again(tmp_path: Path) -> None:
    """An interrupted copy goes on after them: their files are the same as before the stop."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log, 4)
        home.services.logs.background.drain()
        disk = home.paths[1] / "orders-0.0123456789abcdef0123456789abcdef-future"
        home.place_copy(disk, log.segments[:2])
        identities = [files.find_identity(disk / f"{base:020d}.log") for base in (0, 3)]
        damaged = disk / f"{6:020d}.log"
        damaged.write_bytes(b"not a copy")
        stranger = disk / f"{4:020d}.log"
        stranger.write_bytes(b"of a copy that Apache Kafka has begun")
    async with Directories(tmp_path) as home:
        await home.settle()
        moved = home.path("orders-0")

        assert [files.find_identity(moved / f"{base:020d}.log") for base in (0, 3)] == identities
        assert offsets_in(bytes_of(home.log(), 0)) == [0, 3, 6, 9]
        assert not (moved / stranger.name).exists()
        check_log(home.log())


@pytest.mark.parametrize("case", ["another topic's", "in the same directory", "a second one"])
async def test_stale_copies_go(tmp_path: Path, case: str) -> None:
    """A copy that cannot become the partition is deleted at the start, with a line in the log."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        place = home.paths[0] if case == "in the same directory" else home.paths[1]
        for number in range(2 if case == "a second one" else 1):
            copy = place / f"orders-0.{number:032x}-future"
            home.place_copy(copy, log.segments[:1])
            if case == "another topic's":
                (copy / files.PARTITION_METADATA).write_text(
                    "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
                )
    async with Directories(tmp_path) as home:
        await home.settle()

        moves = case == "a second one"
        assert home.log().directory is (home.other if moves else home.first)
        assert offsets_in(bytes_of(home.log(), 0)) == [0, 3, 6]
        assert not copies(tmp_path)


async def test_a_copy_without_its_partition_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be all there is of it: a person decides."""
    async with Directories(tmp_path):
        pass
    (tmp_path / "data-1" / "lost-0.0123456789abcdef0123456789abcdef-future").mkdir()
    async with Directories(tmp_path) as home:
        assert folders(home.other) == ["lost-0.0123456789abcdef0123456789abcdef-future"]
    assert "left alone" in caplog.text


async def test_the_copy_of_a_deleted_topic_goes_at_the_start(tmp_path: Path) -> None:
    """A kill between the catalogue and the folders of a deletion leaves nothing behind."""
    home = await Directories(tmp_path, **STALLED).open()
    log = await home.create()
    append(log, 3)
    await home.ask(home.other)
    topic_id = log.topic_id

    def change(state: Any) -> None:
        del state.topics["orders"]
        state.deleted |= {topic_id}

    await home.writer.commit(change)
    for move in home.services.logs.futures.under_way.values():
        move.cancel()
    home.services.moves._is_closing = True
    await home.settle()
    home.crash()
    async with Directories(tmp_path) as home:
        assert not home.services.topics.topics
        assert not copies(tmp_path)


async def test_the_old_folder_of_a_deleted_topic_goes_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has kept it does not bring the topic back."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        append(log, 3)
        install(monkeypatch).fail("rename", path="data-0/orders-0", times=1)
        await home.move()
        assert folders(home.first) == ["orders-0"]
        await home.services.topics.delete(home.services.topics.topics["orders"])
    async with Directories(tmp_path) as home:
        assert not home.services.topics.topics
        assert "orders-0" not in folders(home.first)


async def test_a_name_whose_old_folder_cannot_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log has moved away and its topic was deleted; a start would find two folders."""
    async with Directories(tmp_path) as home:
        await home.create()
        await asyncio.to_thread(home.services.logs.background.drain)  # it renames, too
        disk = install(monkeypatch)
        disk.fail("rename", path="data-0/orders-0", times=1)
        await home.move()
        assert folders(home.first) == ["orders-0"]
        topics = home.services.topics
        await topics.delete(topics.topics["orders"])
        disk.fail("stat", path="data-0/orders-0")
        home.services.logs.prefer(ORDERS, home.other)
        with pytest.raises(KafkaStorageError, match="Input/output error"):
            await topics.create("orders", 1, {})
        disk.mend()
        (home.first.path / "orders-0").rename(tmp_path / "moved")
        again = await topics.create("orders", 1, {})
        await topics.delete(again)
        await topics.create("others", 1, {})
        assert again.id not in home.writer.state.deleted
    async with Directories(tmp_path) as home:
        assert list(home.services.topics.topics) == ["others"]


async def test_a_log_that_moves_on_keeps_the_mark_while_an_old_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the mark a start could not tell the folders apart."""
    async with Directories(tmp_path, 3) as home:
        log = await home.create()
        append(log, 3)
        await asyncio.to_thread(home.services.logs.background.drain)  # it renames, too
        disk = install(monkeypatch)
        disk.fail("rename", errno.EMFILE, "data-0/orders-0", times=1)
        await home.move()
        disk.mend()
        assert folders(home.first) == ["orders-0"]
        third = home.services.logs.directories[2]
        await home.move(third)
        assert log.directory is third
    async with Directories(tmp_path, 3) as home:
        assert home.log().log_end_offset == 3
        assert home.log().directory is home.services.logs.directories[2]
        assert "orders-0" not in folders(home.first)


async def test_two_folders_and_no_mark(tmp_path: Path) -> None:
    """Kafka, killed amid its renames, leaves two; nobody can tell, so nothing starts."""
    async with Directories(tmp_path) as home:
        await home.create()
    (tmp_path / "data-1" / "orders-0").mkdir()
    with pytest.raises(Exception, match="is in two log directories"):
        await Directories(tmp_path).open()


async def test_slices_outlive_the_move(tmp_path: Path) -> None:
    """A range that a fetch is sending is sent to its end, and from the old files."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        found = log.read(3, 1 << 20, log.log_end_offset)
        assert found is not None
        old = log.segments
        await home.move()
        home.clock.advance(60_000)
        home.services.logs.deletions.run_due()
        home.services.logs.background.drain()

        assert folders(home.first) == []
        assert offsets_in(found.segment.read(found.slice.position, found.slice.size)) == [3]
        assert old[0].next_offset() == 3  # a late lookup in an old segment finds the new files


async def test_a_pin_holds(tmp_path: Path) -> None:
    """Links that were begun before the move are of the old files, and stay."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        data = bytes_of(log, 0)
        frozen = log.freeze()
        await home.ask(home.other)
        await give_turns_until(lambda: log.directory, "the other directory", equals(home.other))
        (pinned,) = await asyncio.to_thread(pin_links.link, "pin", [frozen])
        await home.settle()
        home.clock.advance(60_000)
        home.services.logs.deletions.run_due()
        home.services.logs.background.drain()
        kept = [
            (pinned.folder / f"{each.base_offset:020d}.log").read_bytes()[: each.size]
            for each in pinned.segments
        ]

        assert pinned.folder.is_relative_to(home.first.path)
        assert b"".join(kept) == data


async def test_a_full_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The move is given up with one sentence and its room; both directories go on."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        disk = install(monkeypatch)
        disk.fail("copy_file_range", errno.ENOSPC)
        await home.move()

        assert home.services.moves.counts.failed == {ORDERS}
        assert log.directory is home.first
        assert folders(home.other) == []
        assert home.other.refusal is None
        append(log, 3)
        disk.mend()
        await home.move()
        assert log.directory is home.other
        assert home.services.moves.counts.failed == set()
        check_log(log)


async def test_a_target_without_its_reserve(tmp_path: Path) -> None:
    """The copy gives its room back at once, for want of which produces are refused."""
    async with Directories(tmp_path, **STALLED) as home:
        log = await home.create()
        _fill(log)
        await home.ask(home.other)
        home.other.check(reserve_bytes=1 << 60)
        await home.go_on()

        assert home.services.moves.counts.failed == {ORDERS}
        assert log.directory is home.first
        assert folders(home.other) == []


async def test_a_broken_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails is offline, as ever; the partition is served from where it is."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        install(monkeypatch).fail("fsync", path="-future/0")
        await home.move()

        assert home.other.failure is not None
        assert home.first.refusal is None
        assert log.directory is home.first
        append(log, 3)
        check_log(log)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("pread", "data-0/orders-0/"),
        ("stat", "data-0/orders-0/00000000000000000000.txnindex"),
        ("open", "data-0/orders-0/00000000000000000006.snapshot"),
    ],
)
async def test_an_unreadable_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, path: str
) -> None:
    """The other disk is not blamed for it."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        disk = install(monkeypatch)
        if call == "pread":
            disk.fail("copy_file_range")
        disk.fail(call, path=path)
        await home.move()
        disk.mend()

        assert home.services.moves.counts.failed == {ORDERS}
        assert home.other.refusal is None
        assert log.directory is home.first


async def test_a_kernel_that_does_not_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between some file systems bytes are copied by hand."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        data = bytes_of(log, 0)
        install(monkeypatch).fail("copy_file_range", errno.EXDEV)
        await home.move()

        assert log.directory is home.other
        assert bytes_of(log, 0) == data


async def test_a_folder_in_the_way(tmp_path: Path) -> None:
    """Nothing is replaced that has the partition's name already."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        append(log, 3)
        home.path("orders-0").mkdir()
        with pytest.raises(KafkaStorageError, match="exists; move it away"):
            await home.move()

        assert log.directory is home.first
        assert home.other.refusal is None
        assert folders(home.other) == ["orders-0"]
        assert home.cleaning.manager.states.get(ORDERS) is State.NONE


async def test_old_files_are_let_go(tmp_path: Path) -> None:
    """Their room is free as soon as the folder is removed and nobody reads them."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        home.services.logs.background.drain()
        assert bytes_of(log, 0)
        await home.move()
        home.clock.advance(60_000)
        home.services.logs.deletions.run_due()
        home.services.logs.background.drain()

        # the io thread that copied may hold its task a moment longer
        await give_turns_until(
            lambda: open_files(home.first.path), "the files to be closed", equals([])
        )


async def test_order_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is durable before the copy takes over, and that is durable before the old folder goes."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        home.services.logs.background.drain()
        disk = install(monkeypatch)
        await home.move()
        calls = [(kind, path.replace(str(tmp_path), "")) for kind, path in disk.calls]
    future = next(path for kind, path in calls if kind == "rename" and path.endswith("-future"))
    takes_over = calls.index(("rename", future))
    goes = calls.index(("rename", "/data-0/orders-0"))
    synced = {path for kind, path in calls[:takes_over] if kind == "fsync"}

    for base in (0, 3, 6):
        for kind in files.SEGMENT_KINDS[:3]:
            assert f"{future}/{base:020d}{kind}" in synced
    assert future in synced
    assert takes_over < calls.index(("fsync", "/data-1"), takes_over) < goes
    assert calls.index(("unlink", f"/data-1/orders-0/{files.MOVED}")) > goes


async def test_flushes_wait_for_the_new_place(tmp_path: Path) -> None:
    """The recovery point does not move in the moment between the two directories."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        log.flush()
        await home.move()

        assert log.recovery_point == 9
        append(log, 3)
        await asyncio.to_thread(log.flush)
        assert log.recovery_point == 12


async def test_a_move_needs_no_thread_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many producers as there are threads may ask for an fsync in the last moment of a move."""
    async with Directories(tmp_path) as home:
        log = await home.create()
        _fill(log)
        take_over = FutureLog.take_over
        flushes: list[asyncio.Future[None]] = []

        def keep_threads_busy(future: FutureLog, max_bytes: int) -> bool:
            flushes.extend(home.io.run(log.flush) for _ in range(4))
            return take_over(future, max_bytes)

        monkeypatch.setattr(FutureLog, "take_over", keep_threads_busy)
        await home.move()
        await asyncio.gather(*flushes)

        assert (log.directory, log.recovery_point) == (home.other, 9)


@pytest.mark.parametrize("seed", range(4))
async def test_moves_under_traffic(tmp_path: Path, seed: int) -> None:
    """Appends, rolls, DeleteRecords and fetches go on while a partition moves to and fro."""
    draw = random.Random(seed)
    async with Directories(tmp_path) as home:
        log = await home.create(segment_bytes="20000", index_interval_bytes="300")
        traffic = asyncio.create_task(_produce(log, draw))
        reading = asyncio.create_task(_follow(log))
        for directory in (home.other, home.first, home.other):
            await home.move(directory)
            assert log.directory is directory
            await asyncio.sleep(0)
        traffic.cancel()
        reading.cancel()
        for task in (traffic, reading):
            with pytest.raises(asyncio.CancelledError):
                await task
        check_log(log)
        end, start = log.log_end_offset, log.log_start_offset
        data = bytes_of(log, start)

        assert folders(home.other).count("orders-0") == 1
        assert "orders-0" not in folders(home.first)
    async with Directories(tmp_path) as home:
        log = home.log()
        check_log(log)

        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        assert bytes_of(log, start) == data


async def _produce(log: Log, draw: random.Random) -> None:
    """Append batches one by one, each offset in turn; roll and delete now and then."""
    expected = 0
    while True:
        count = draw.randrange(1, 5)
        result = append(log, count, timestamp=TIMESTAMP + expected)
        assert result.base_offset == expected
        expected += count
        if not draw.randrange(40):
            log.roll()
        if not draw.randrange(60):
            log.delete_records(draw.randrange(log.log_start_offset, expected))
        await asyncio.sleep(0.001)  # a copy gets its turns, and never catches up by itself


async def _follow(log: Log) -> None:
    """Read on and on, and miss nothing."""
    offset = 0
    while True:
        offset = max(offset, log.log_start_offset)
        found = log.read(offset, 1 << 16, log.log_end_offset)
        if found is not None:
            data = await asyncio.to_thread(
                found.segment.read, found.slice.position, found.slice.size
            )
            offsets = offsets_in(data)
            assert offsets[0] <= offset
            offset = found.next_offset
        await asyncio.sleep(0.001)
