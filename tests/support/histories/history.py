"""A random history of the storage of a broker: clients, faults of the disk, kills, power failures.

It drives a `LogManager` with two log directories and two partitions in one thread: what the
background thread would do waits until a step does it. After each start, and in between,
everything is read in every way (`Partition.judge`).
"""

import errno
import gc
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty
from random import Random
from typing import Any, Self
from uuid import UUID

import pytest

import siltstone.storage.manager
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.output import drop_unfinished
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.server import ServerConfig
from siltstone.protocol.core.constants import SLOT_BYTES
from siltstone.protocol.errors import KafkaError, KafkaStorageError, PolicyViolation
from siltstone.protocol.records.batch import TRANSACTIONAL
from siltstone.protocol.records.build import ABORT, COMMIT, BatchFields, build_marker
from siltstone.storage import files, threads
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.appending.validation import validate
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.files import disk as seam
from siltstone.storage.log.dropped_segments import RETRY_MS
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.moving import future_logs
from siltstone.storage.moving.future_log import NEAR_BYTES, FutureLog
from siltstone.storage.producers.checks import Origin
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.topic_partition import FolderState, TopicPartition, folder_name
from tests.support import faults
from tests.support.batches import Row, make_batch
from tests.support.clock import FakeClock
from tests.support.faults import ALWAYS, Killed
from tests.support.histories.partition import Batch, Found, Partition, Producer, body_of
from tests.support.histories.plan import FAULTS, PATHS, Step, make_config
from tests.support.invariants import check_folder
from tests.support.logs import validated
from tests.support.power import PowerDisk

TOPICS = ("a", "b")
IDEMPOTENT, TRANSACTIONAL_IDS = (7, 8), (9, 10)
PAGE = 4096
CACHED_FILES = 3


class Steps(Background):
    """The background thread, whose work is done when a step says so."""

    def start(self) -> None:
        """Start nothing."""

    def work(self, count: int = 1 << 30) -> None:
        """Do so many pieces of the work that waits."""
        with suppress(Empty):
            for _ in range(count):
                item = self._queue.get_nowait()
                if item is not None:
                    self._work(*item)

    def drain(self) -> None:
        """Do all of it."""
        self.work()


class InTurn:
    """Stands in for a pool of threads: one thing is done after the other, in this thread."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *given: Any) -> Future[Any]:
        """Do it."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given))
        except Exception as error:  # noqa: BLE001  # the caller gets it
            done.set_exception(error)
        return done


@dataclass
class History:
    """A storage that lives through steps; ``said`` is a line for each."""

    root: Path
    seed: int
    disk: PowerDisk
    patch: pytest.MonkeyPatch
    said: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    unsure: set[TopicPartition] = field(default_factory=set)  # half created, or half deleted
    due: set[TopicPartition] = field(default_factory=set)  # acknowledged after a flush
    clock: FakeClock = field(default_factory=FakeClock)
    names: int = 0
    is_on: bool = False

    def __post_init__(self) -> None:
        self.paths = [self.root / f"disk-{number}" for number in range(2)]
        for path in self.paths:
            path.mkdir()
        self.patch.setattr(siltstone.storage.manager, "Background", Steps)
        self.patch.setattr(threads, "new_pool", InTurn)
        self.patch.setattr(siltstone.storage.manager, "random_id", self._new_id)
        self.patch.setattr(future_logs, "random_id", self._new_id)
        self.patch.setattr(siltstone.storage.manager, "OpenFiles", partial(OpenFiles, CACHED_FILES))

    def play(self, steps: Sequence[Step]) -> None:
        """Live through steps, and an end at which everything works and exists.

        Raises:
            Found: Something is not as it must be.
        """
        try:
            self._play(steps)
        except Found:
            raise
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)
            place = ([each for each in places if "/tests/" not in each.filename] or places)[-1]
            rule = f"{type(error).__name__} in {place.name}"
            raise Found(rule, f"{place.filename}:{place.lineno}: {error}") from error
        finally:
            if self.is_on:
                self._abandon()

    def _play(self, steps: Sequence[Step]) -> None:
        first = Random(f"{self.seed} settings")
        self._start(first, "begins")
        for topic in TOPICS:
            self._create(TopicPartition(topic, 0), first)
        for number, kind in steps:
            chance = Random(f"{self.seed} {number}")
            self.said.append(f"{number} {kind}")
            self.happened[kind] += 1
            if self._dies_in(kind, chance):
                self._end(chance, lost_power=chance.random() < 0.3)
        self.said.append("the end")
        self._finish(Random(f"{self.seed} end"))

    def _dies_in(self, kind: str, chance: Random) -> bool:
        """Do a step, and tell whether the process has died in it."""
        try:
            getattr(self, kind)(chance)
        except _NoTopic:
            self._say("there is no topic")
        except Killed:
            self._say("dies here")
            return True
        return False

    def _finish(self, chance: Random) -> None:
        """Have the disk work: then everything exists, and more can be written."""
        self.mend(chance)
        self.disk.revive()
        if any(each.failure for each in self.manager.directories):
            self._end(chance, lost_power=False)
        self.manager.check_directories(0)
        self.background.work()
        self._flush_all()
        self.judge(chance)
        self._write_more(chance)
        self.stop(Random(f"{self.seed} stop"))

    def _flush_all(self) -> None:
        for log, _ in self._logs():
            log.flush()

    def _write_more(self, chance: Random) -> None:
        for each in TOPICS:
            self._create(TopicPartition(each, 0), chance)
        for log, partition in self._logs():
            before = partition.end
            self._append(log, partition, self._make_batch(chance, log, []))
            if partition.end == before:
                raise Found("writes are taken again", f"{partition} takes none")

    # What clients do.

    def produce(self, chance: Random) -> None:
        """Append a batch, of an idempotent producer or not, and flush if it is due."""
        log, partition = self._choose(chance)
        producer = partition.producer(chance.choice(IDEMPOTENT)) if chance.random() < 0.4 else None
        data = self._make_batch(chance, log, self._rows(chance, log), producer)
        self._append(log, partition, data, producer)
        self._flush_or_wait(chance, log, partition)

    def retry(self, chance: Random) -> None:
        """Send the last batch of a producer again: it is recognized."""
        log, partition = self._choose(chance)
        senders = [each for each in partition.producers.values() if each.sent and each.stored]
        if not senders:
            return
        producer = chance.choice(senders)
        stored = producer.stored
        assert stored is not None
        if len(producer.sent) > log.config.segment_bytes:
            return
        batch = self._judge_batch(log, bytearray(producer.sent))
        with self._refusals():
            result = log.append(batch)
            if not result.duplicate:
                partition.note(log, batch.buffer)
                if stored.base >= partition.recognized_from:
                    raise Found(
                        "a retry is recognized", f"{stored} of {partition} is written twice"
                    )
            elif result.base_offset != stored.base:
                raise Found("a retry", f"{stored} of {partition} is said at {result.base_offset}")
            elif log.config.flush_messages == 1:
                if result.flush_due:
                    log.flush()
                partition.sure = max(partition.sure, stored.last + 1)

    def transact(self, chance: Random) -> None:
        """Append a batch of a transaction."""
        log, partition = self._choose(chance)
        if log.config.is_compacted:
            return
        producer = partition.producer(chance.choice(TRANSACTIONAL_IDS))
        rows = self._rows(chance, log)
        data = self._make_batch(chance, log, rows, producer, flags=TRANSACTIONAL)
        self._append(log, partition, data, producer)
        producer.sent = b""
        self._flush_or_wait(chance, log, partition)

    def end(self, chance: Random) -> None:
        """Commit or abort an open transaction."""
        log, partition = self._choose(chance)
        running = sorted(partition.transactions().first)
        if not running:
            return
        number = chance.choice(running)
        kind = chance.choice([ABORT, COMMIT, ABORT])
        now_ms = self.clock.now_ms()
        marker = build_marker(0, now_ms, kind, 0, producer_id=number, producer_epoch=0)
        partition.attempts.add(body_of(marker))
        with self._refusals():
            try:
                log.append(validated(marker), Origin.COORDINATOR)
            except KafkaError:
                if log.log_end_offset != partition.end:  # only its index entry was refused
                    partition.unclosed.append(partition.transactions().first[number].base)
                raise
            finally:
                if log.log_end_offset != partition.end:
                    partition.note(log, marker)
                    partition.find_marker_alone(log)
        self._flush_or_wait(chance, log, partition)

    def round(self, chance: Random) -> None:
        """Append several batches that come together, to both partitions."""
        tried: list[tuple[Partition, Producer | None, bytes, ValidatedBatch]] = []
        held: dict[int, int] = {}
        for _ in range(chance.randint(2, 6)):
            log, partition = self._choose(chance)
            numbers = [None, *IDEMPOTENT]
            number = chance.choice(numbers)
            producer = None if number is None else partition.producer(number)
            rows = self._rows(chance, log)
            sent = self._make_batch(chance, log, rows, producer)
            batch = self._judge_batch(log, bytearray(sent))
            log.end.append(log, batch, Origin.CLIENT, True)  # C has no names
            tried.append((partition, producer, bytes(sent), batch))
            if producer is not None:
                held.setdefault(id(producer), producer.sequence)
                producer.sequence += len(rows)
            if batch.error is not None:
                break
        self.manager.services.appends.write()
        self._note_round(tried, held)
        for error in dict.fromkeys(batch.error for *_, batch in tried):
            if isinstance(error, KafkaStorageError):
                self._refused(error)
            elif error is not None:
                raise error
        for log, partition in self._logs():
            if log.end.is_flush_due():
                self._flush_or_wait(chance, log, partition)

    def _note_round(
        self,
        tried: list[tuple[Partition, Producer | None, bytes, ValidatedBatch]],
        held: dict[int, int],
    ) -> None:
        for log, partition in self._logs():
            mine = [each for each in tried if each[0] is partition]
            written = [each for each in mine if each[3].error is None]
            expected = partition.end
            for *_, batch in written:
                base = batch.base_offset
                if base != expected:
                    raise Found("offsets follow", f"{base} of {partition} is told, not {expected}")
                expected += batch.count
            batches = partition.note(log, *(each[3].buffer for each in written))
            for (_, producer, sent, _), stored in zip(written, batches, strict=True):
                self._note_sent(producer, sent, stored)
            for _, producer, _, _ in mine[len(written) :]:
                if producer is not None:
                    last = producer.stored
                    producer.sequence = held[id(producer)]
                    if last is not None and any(last is batch for batch in batches):
                        header = last.header
                        producer.sequence = header.base_sequence + header.last_offset_delta + 1

    def delete_records(self, chance: Random) -> None:
        """Raise the log start offset."""
        log, partition = self._choose(chance)
        offset = chance.randint(log.log_start_offset, log.log_end_offset)
        with self._refusals(), suppress(PolicyViolation):
            partition.start = max(partition.start, log.delete_records(offset))

    def recreate(self, chance: Random) -> None:
        """Delete a topic and make one of its name."""
        if chance.random() < 0.5:
            return
        topic_partition = TopicPartition(chance.choice(TOPICS), 0)
        if topic_partition in self.manager.logs:
            self._delete(topic_partition)
        self._create(topic_partition, chance)

    def alter(self, chance: Random) -> None:
        """Give a topic other settings; whether it is compacted and preallocated stays."""
        log, partition = self._choose(chance)
        before = partition.config
        partition.config = replace(
            make_config(chance),
            cleanup_policy=before.cleanup_policy,
            preallocate=before.preallocate,
        )
        log.reconfigure(partition.config)

    # What the broker does by itself.

    def roll(self, chance: Random) -> None:
        """Begin a segment."""
        log, _ = self._choose(chance)
        with self._refusals():
            log.roll()

    def flush(self, chance: Random) -> None:
        """Flush a log, and what is due."""
        log, _ = self._choose(chance)
        with self._refusals():
            log.flush()
        self._flush_due()

    def work(self, chance: Random) -> None:
        """Do some of the background's work."""
        self.background.work(chance.choice([1, 2, 1 << 30]))

    def time(self, chance: Random) -> None:
        """Let time pass, and deletions become due."""
        self.clock.advance(chance.choice([1, 200, 5_000, 61_000]))
        self.manager.deletions.run_due()

    def check(self, _: Random) -> None:
        """Look whether a directory takes writes again."""
        self.manager.check_directories(0)
        self.background.work()

    def checkpoint(self, chance: Random) -> None:
        """Have the checkpoints written."""
        self.manager.checkpoint(files.RECOVERY_POINTS)
        if chance.random() < 0.7:
            self.manager.checkpoint(files.LOG_START_OFFSETS)
        self.manager.checkpoint(files.HIGH_WATERMARKS)

    def retain(self, chance: Random) -> None:
        """Apply retention: what goes is below the new start and old or too much."""
        self._retain(*self._choose(chance))

    def _retain(self, log: Log, partition: Partition) -> None:
        before, size = log.log_start_offset, log.size
        now_ms = self.clock.now_ms()
        with self._refusals():
            log.apply_retention(now_ms)
        partition.start = max(partition.start, log.log_start_offset)
        config = log.config
        if config.retention_bytes < 0 or size <= config.retention_bytes:
            for batch in partition.known:
                is_young = batch.header.max_timestamp >= now_ms - config.retention_ms
                if before <= batch.base < log.log_start_offset and is_young:
                    raise Found("retention", f"{batch} of {partition} is deleted too early")

    def clean(self, chance: Random) -> None:
        """Have the cleaner make a pass over a compacted log."""
        log, partition = self._choose(chance)
        if not log.config.is_compacted or log.directory.failure is not None:
            return
        cleaner = Cleaner(
            clock=self.clock,
            throttle=Throttle(self.clock),
            dedupe_buffer_bytes=chance.choice([4, 1000]) * SLOT_BYTES,
            load_factor=1.0,
            io_buffer_bytes=chance.choice([200, 1 << 16]),
        )
        active = log.segments[-1].base_offset
        if active <= log.log_start_offset:
            return
        try:
            try:
                log.finish_swap()
                work = LogToClean.of(log, first_dirty_offset=0, first_uncleanable_offset=active)
                cleaner.clean(work, log.replace_segments, lambda: None)
            finally:
                if not log.has_unfinished_swap and not self.disk.is_dead:
                    with suppress(OSError):
                        drop_unfinished(log.path)
        except (OSError, KafkaStorageError) as error:
            self._refused(error)
        with self._working():
            partition.relearn(log)

    def move(self, chance: Random) -> None:
        """Move a partition to the other log directory, as the broker does."""
        log, partition = self._choose(chance)
        target = next(each for each in self.manager.directories if each is not log.directory)
        if target.client_refusal is not None or log.directory.failure is not None:
            return
        name = folder_name(partition.topic_partition, FolderState.FUTURE, self._new_id())
        future = FutureLog(log, target, target.path / name)
        futures = self.manager.futures
        if future.final_path.exists():
            return
        futures.begin(future)
        try:
            self._move(chance, log, partition, future)
            if not target.failure:
                futures.remove_source(future)
        except (OSError, KafkaError) as error:
            self._refused(error)
            if isinstance(error, OSError) and not future.has_taken_over:
                target.fail(error)
            if not future.has_taken_over:
                with suppress(OSError):
                    futures.remove(future.path, partition.topic_partition, at_once=True)
        futures.end(future)
        self.checkpoint(chance)

    def _move(self, chance: Random, log: Log, partition: Partition, future: FutureLog) -> None:
        log.finish_swap()
        future.create()
        future.copy()
        if chance.random() < 0.5:
            self._retain(log, partition)
        self.manager.checkpoint(files.RECOVERY_POINTS)
        self.manager.checkpoint(files.LOG_START_OFFSETS)
        self.background.work()
        log.hold_flushes()
        try:
            future.settle()
            future.check()
            self._learn_what_is_sure()
            partition.is_unsure = True  # until a start finds the new folder
            if future.take_over(NEAR_BYTES):
                try:
                    files.fsync_directory(future.directory.path)
                except OSError as error:
                    future.directory.fail(error)
                    return
            partition.is_unsure = False
        finally:
            log.release_flushes()

    def judge(self, chance: Random) -> None:
        """Read everything in every way, while the disk works."""
        with self._working():
            for log, partition in self._logs():
                partition.judge(log, chance)
            self._check_rest()

    # What goes wrong.

    def fault(self, chance: Random) -> None:
        """Have some calls fail, once or until the disk is mended."""
        call, error = chance.choice(FAULTS)
        path = chance.choice(PATHS)
        after = chance.choice([0, 0, 0, 1, 1, 2, 4, 9])
        times = chance.choice([1, 1, 1, 2, ALWAYS])
        short = call == "pwrite" and chance.random() < 0.3
        fault = self.disk.fail(call, error, path, after=after, times=times, short=short)
        how = "is short" if short else f"says {errno.errorcode[error]}"
        many = "from then on" if times == ALWAYS else f"{times} times"
        self._say(f"{call} {fault.path} {how} after {after}, {many}")

    def mend(self, _: Random) -> None:
        """Have the disk work again."""
        self.disk.mend()

    def stop(self, chance: Random) -> None:
        """Stop cleanly, perhaps lose the power then, and start."""
        was_well = not self.disk.faults and not self._has_trouble()
        self.due.clear()
        self._learn_what_is_sure()
        is_marked = self.manager.close()
        self.is_on = False
        if was_well and not is_marked:
            raise Found("a stop is clean", "it is not, and nothing failed")
        if is_marked:
            for partition in self._partitions():
                partition.sure = partition.end
        lost_power = chance.random() < 0.3
        if lost_power:
            self.disk.cut_power(chance)
        self._start(chance, "stopped", lost_power=lost_power)

    def kill(self, chance: Random) -> None:
        """Be killed between two steps."""
        self._end(chance, lost_power=False)

    def cut(self, chance: Random) -> None:
        """Lose the power."""
        self._end(chance, lost_power=True)

    def dies(self, chance: Random) -> None:
        """Be killed at a change of the disk to come."""
        self.disk.kill_after(chance.randint(0, 30))

    # How a process ends and another begins.

    def _end(self, chance: Random, *, lost_power: bool) -> None:
        self._learn_what_is_sure()
        self._abandon()
        if lost_power:
            self.disk.cut_power(chance)
        self._start(chance, "lost its power" if lost_power else "was killed", lost_power=lost_power)

    def _learn_what_is_sure(self) -> None:
        """Note what a power failure may not take: all below the recovery point."""
        for log, partition in self._logs():
            if not partition.is_unsure:
                partition.sure = max(partition.sure, min(log.recovery_point, partition.end))

    def _abandon(self) -> None:
        """Leave everything as a kill does."""
        self.is_on = False
        self.due.clear()
        del self.manager, self.background  # whatever it still held is never done
        self._unlock()

    def _unlock(self) -> None:
        seam.locked.clear()
        for fd, name in self._open_files():
            if name.endswith(f"/{files.LOCK}"):
                os.close(fd)

    def _start(self, chance: Random, before: str, *, lost_power: bool = False) -> None:
        """Start on what the disk has, dying in it first now and then, and judge."""
        self._say(before)
        dies = before != "begins" and chance.random() < 0.2
        while True:
            self.disk.revive()
            if dies:
                self.disk.kill_after(chance.randint(0, 12))
            for path in self.paths:
                if not (path / files.FSYNC_FAILED).exists():
                    self.disk.forgive(path)
            manager = LogManager(self.paths, ServerConfig(), self._config_of, self.clock)
            try:
                manager.load()
            except Killed:
                self._unlock()
                again = chance.random() < 0.3
                if again:
                    self.disk.revive()
                    self.disk.cut_power(chance)
                lost_power |= again
                self._say("dies in its start" + ", and loses its power" * again)
            except LogDirError as error:
                if not self.disk.faults:
                    raise Found("a start", str(error)) from error
                self._say(f"does not start: {error}")
                self.disk.mend()
                self.disk.revive()
                manager.close(clean=False)
            else:
                break
            dies = dies and chance.random() < 0.3
        self.disk.dies_in = -1
        self.manager = manager
        background = manager.background
        assert isinstance(background, Steps)
        self.background = background
        self.is_on = True
        with self._working():
            self._take_stock(lost_power=lost_power)
        self.judge(chance)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Have the disk work meanwhile, and the process live."""
        plan, self.disk.faults = self.disk.faults, []
        dies_in, self.disk.dies_in = self.disk.dies_in, -1
        try:
            yield
        finally:
            self.disk.faults = plan
            self.disk.dies_in = dies_in

    def _take_stock(self, *, lost_power: bool) -> None:
        """Compare what a start has found with what must exist."""
        manager = self.manager
        for aside in manager.set_aside.values():
            raise Found("nothing is damaged", aside.reason)
        for found in manager.futures.found:
            with suppress(OSError):
                manager.futures.remove(found.path, found.topic_partition, at_once=True)
        unsure, self.unsure = self.unsure, set()
        for topic_partition, log in list(manager.logs.items()):
            partition = self.partitions.get(topic_partition)
            if partition is None or partition.topic_id != log.topic_id:
                if topic_partition not in unsure:
                    raise Found("what was deleted is gone", f"{topic_partition} exists")
                self._delete(topic_partition)
                continue
            check_folder(log)
            partition.absorb(log, lost_power=lost_power)
            if lost_power:  # what lies below the start may have lost its end, or all
                self._retain(log, partition)
                partition.relearn(log, partition.start)
        for topic_partition in self.partitions.keys() - manager.logs.keys():
            raise Found("what was created exists", f"{topic_partition} does not")

    def _check_rest(self) -> None:
        """Check what a log takes of descriptors and room once all work is done."""
        if self.background.pending or self.due or self._has_trouble():
            return
        if any(log.recovery_point < log.segments[-1].base_offset for log, _ in self._logs()):
            return  # a flush that failed comes again
        allowed = len(self.paths) + len(TOPICS) + CACHED_FILES
        there = [name for _, name in self._open_files()]
        if len(there) > allowed:
            gc.collect()  # of processes that were killed
            there = [name for _, name in self._open_files()]
        if len(there) > allowed:
            raise Found("descriptors", f"{len(there)} are open: {sorted(there)}")
        for log, _ in self._logs():
            for segment in log.segments[:-1]:
                status = os.fstat(segment.file().fileno())  # it may be half renamed
                if status.st_blocks * 512 > -(-status.st_size // PAGE) * PAGE:
                    raise Found("room is given back", f"{segment} has {status.st_blocks} blocks")

    def _open_files(self) -> Iterator[tuple[int, str]]:
        for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with suppress(FileNotFoundError):
                name = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
                is_going = "delete" in name  # of a segment or a topic, until its time has come
                if name.startswith(f"{self.root}/") and not is_going:
                    yield int(fd), name

    def _has_trouble(self) -> bool:
        return any(each.refusal is not None for each in self.manager.directories)

    # Helpers of the steps.

    def _config_of(self, topic: str) -> Any:
        partition = self.partitions.get(TopicPartition(topic, 0))
        return make_config(Random(0)) if partition is None else partition.config

    def _create(self, topic_partition: TopicPartition, chance: Random) -> None:
        if topic_partition in self.manager.logs:
            return
        topic_id = UUID(int=chance.getrandbits(120) | 1)
        config = make_config(chance)
        if topic_partition in self.unsure:  # its folder has its name until the disk takes another
            self.clock.advance(RETRY_MS)
            self.manager.deletions.run_due()
            self.background.work()
        with self._may_stay(topic_partition):
            self.manager.create(topic_partition, topic_id, config)
            self.partitions[topic_partition] = Partition(topic_partition, topic_id, config)

    def _delete(self, topic_partition: TopicPartition) -> None:
        self.partitions.pop(topic_partition, None)
        self.due.discard(topic_partition)
        with self._may_stay(topic_partition):
            self.manager.delete(topic_partition)

    @contextmanager
    def _may_stay(self, topic_partition: TopicPartition) -> Iterator[None]:
        """Expect half a folder, or a whole one, at the next start if something fails."""
        before = set(self.unsure)
        self.unsure.add(topic_partition)
        with self._refusals():
            yield
            self.unsure = before

    def _partitions(self) -> list[Partition]:
        return list(self.partitions.values())

    def _logs(self) -> list[tuple[Log, Partition]]:
        if not hasattr(self, "manager"):
            return []
        return [
            (self.manager.logs[name], partition)
            for name, partition in sorted(self.partitions.items())
            if name in self.manager.logs
        ]

    def _choose(self, chance: Random) -> tuple[Log, Partition]:
        """Return a log, after an attempt to make it if it is missing."""
        name = TopicPartition(chance.choice(TOPICS), 0)
        if name not in self.manager.logs:
            self._create(name, chance)
        both = self._logs()
        if not both:
            raise _NoTopic
        return next((each for each in both if each[1].topic_partition == name), both[0])

    def _rows(self, chance: Random, log: Log) -> list[Row]:
        """Make up records that fit a segment together; now and then they fill one."""
        count = chance.choice([1, 1, 1, 2, 5])
        room = log.config.segment_bytes - 61
        size = chance.choice([1, 1, 10, 60, 300, room])
        size = min(size, room // count - 24)
        return [
            (
                b"%d" % chance.randrange(6) if log.config.is_compacted else chance.randbytes(2),
                chance.randbytes(max(1, size)),
            )
            for _ in range(count)
        ]

    def _make_batch(
        self,
        chance: Random,
        log: Log,
        rows: list[Row],
        producer: Producer | None = None,
        flags: int = 0,
    ) -> bytearray:
        """Return the bytes that a client sends."""
        fields: BatchFields = {"flags": flags}
        if producer is not None:
            fields |= {
                "producer_id": producer.number,
                "producer_epoch": 0,
                "base_sequence": producer.sequence,
            }
        back = chance.choice([0, 0, chance.randint(0, 99), 5_000])
        batch = make_batch(
            rows or [(b"k", b"v")],
            timestamp=self.clock.now_ms() - back,
            step_ms=chance.choice([0, 1, 7]),
            **fields,
        )
        self.clock.advance(chance.randint(0, 20))
        partition = self.partitions[log.topic_partition]
        partition.attempts.add(body_of(batch))
        self._say(f"{partition} {len(batch)} bytes")
        return batch

    def _judge_batch(self, log: Log, data: bytearray) -> ValidatedBatch:
        """Return a batch as it is ready to be appended."""
        now_ms = self.clock.now_ms()
        records = memoryview(data)
        batch = log.end.rules.take(records, now_ms) or validate(records, log.config, now_ms)
        self.partitions[log.topic_partition].attempts.add(body_of(batch.buffer))
        return batch

    def _append(
        self, log: Log, partition: Partition, data: bytearray, producer: Producer | None = None
    ) -> None:
        sent = bytes(data)
        batch = self._judge_batch(log, data)
        with self._refusals():
            try:
                log.append(batch)
            finally:
                if log.log_end_offset != partition.end:
                    (stored,) = partition.note(log, batch.buffer)
                    self._note_sent(producer, sent, stored)

    @staticmethod
    def _note_sent(producer: Producer | None, sent: Any, stored: Batch) -> None:
        if producer is not None:
            producer.sent = bytes(sent)
            producer.stored = stored
            header = stored.header
            producer.sequence = header.base_sequence + header.last_offset_delta + 1

    def _flush_or_wait(self, chance: Random, log: Log, partition: Partition) -> None:
        """Flush before the acknowledgement if the topic asks for it, at once or later."""
        if not log.end.is_flush_due():
            return
        self.due.add(partition.topic_partition)
        if chance.random() < 0.6:
            self._flush_due()

    def _flush_due(self) -> None:
        for log, partition in self._logs():
            if partition.topic_partition in self.due:
                self.due.discard(partition.topic_partition)
                with self._refusals():
                    log.flush()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Take a refusal of the disk for an answer, if the disk has failed."""
        try:
            yield
        except KafkaStorageError as error:
            self._refused(error)

    def _refused(self, error: Exception) -> None:
        if not self.disk.faults and not self._has_trouble():
            raise Found("nothing is refused without a fault", str(error)) from error
        self._say(f"refused: {error}")

    def _say(self, text: str) -> None:
        if self.said:
            self.said[-1] += f"; {text}"
        else:
            self.said.append(text)

    def _new_id(self) -> UUID:
        self.names += 1
        return UUID(int=self.names)


class _NoTopic(Exception):  # noqa: N818  # a state
    """No topic could be made, so a step has nothing to do."""


def new_history(
    root: Path, seed: int, patch: pytest.MonkeyPatch, disk: PowerDisk | None = None
) -> History:
    """Return a history in an empty folder that is made for it."""
    root.mkdir()
    cellar = root / "cellar"
    cellar.mkdir()
    disk = disk or PowerDisk(cellar=cellar)
    faults.install(patch, disk)
    return History(root, seed, disk, patch)
