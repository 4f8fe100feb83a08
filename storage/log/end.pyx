"""The end of a partition, where batches are appended.

A batch that breaks no rule is stamped, written and counted in compiled code, except for the write
itself. In rare cases this code calls the log or the segment.
"""

import logging
from typing import TYPE_CHECKING

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from siltstone.protocol.core._format cimport (
    CONTROL, HEADER_SIZE, LEADER_EPOCH_POSITION, LENGTH_POSITION, LOG_OVERHEAD, TRANSACTIONAL,
    Region, Target, acquire, acquire_target, copy, no_region, no_target,
    release, release_target, write_int32, write_int64,
)
from siltstone.storage.appending.batch cimport PlainRules, ValidatedBatch
from siltstone.storage.clock cimport Clock
from siltstone.storage.log_lock cimport LogLock
from siltstone.storage.producers.producer_entry cimport ProducerEntry
from siltstone.storage.segment.end cimport SegmentEnd

from siltstone.storage.producers.checks import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.config.topic import TopicConfig
    from siltstone.storage.directory.log_directory import LogDirectory
    from siltstone.storage.log.log import Log, Watcher
    from siltstone.storage.log.recovery import LoadedPartition
    from siltstone.storage.producers.state import ProducerStateManager
    from siltstone.storage.segment.segment import LogSegment, LogView

_logger = logging.getLogger(__name__)

cdef enum:
    WRITE_BACK_BYTES = 16 << 20  # after so many bytes write-back is started
    JOINED_BYTES = 64 << 10  # one write of several batches has at most so many bytes, as many as one receive

cdef object CLIENT = Origin.CLIENT


@cython.final
cdef class Appends:
    """The logs with batches of this round of the loop that wait to be written (loop only).

    Several requests may arrive together, on one connection or on several. A batch that may wait
    stays in its `LogEnd` until `write`: there each log writes all its waiting batches by one call.
    No client can notice the delay: `write` is called before an answer leaves, before a request
    other than Produce is served, and before a log goes. A batch that may not wait is written at
    once, after the waiting batches of its log.

    ``taken`` counts the bytes of all batches so far, ``written`` the bytes of those that no longer
    wait. Before a client's batch brings ``taken`` above ``look_at``, ``look`` is called. It
    measures the room of the disks and sets ``look_at`` again. After each ``write_back_bytes`` of a
    log the kernel is asked to begin writing them to the disk.
    """

    def __init__(self):
        self.look = None
        self.look_at = INT64_MAX
        self.taken = 0
        self.written = 0
        self.write_back_bytes = WRITE_BACK_BYTES
        self.logs = []
        self.joined = memoryview(bytearray(JOINED_BYTES))

    cdef int add(self, object log) except -1:
        """Add a log with waiting batches; the next `write` writes them."""
        self.logs.append(log)
        return 0

    cdef int look_again(self) except -1:
        """Measure the room of the disks again, since ``taken`` has reached ``look_at``."""
        if not self.logs:
            self.taken = self.written  # drop the bytes of batches that were refused or not written
        if self.look is not None:
            self.look()
        return 0

    cpdef write(self):
        """Write all batches that wait, and notify the watchers of each log once.

        The result of a batch is in its fields. The failure of a log, or of a watcher, does not
        affect the other logs.
        """
        cdef LogEnd end
        while self.logs:
            log = self.logs[0]
            end = log.end
            try:
                end.write(log)
            except Exception:  # the batches of the other logs must not wait any longer
                _logger.exception("watcher failed partition=%s", log.topic_partition)


@cython.final
cdef class LogEnd:
    """The end of a partition: its offsets, its counters, and the append that changes them.

    Only the event loop appends; ``lock`` is for the few other threads that use the same memory.
    ``view`` is the log as readers see it: they read it once, without the lock, and it shows an
    append only after its bytes are written. The methods get the `Log` for rare cases: a refusal, a
    new segment, a producer that is not known yet. Only this class changes its fields.
    """

    def __init__(self, loaded: LoadedPartition, Clock clock, Appends appends):
        self._clock = clock
        self._appends = appends
        self._held = []  # loop only; the batches that wait to be written
        self._is_awaited = False  # whether the log is in `Appends`
        self.lock = LogLock()
        self.directory = loaded.folder.directory
        self.rules = PlainRules(loaded.folder.config)  # loop only; a new value replaces it
        self.producers = loaded.producers  # guarded by: lock
        self._transactions = loaded.producers.open_transactions  # guarded by: lock
        self.leader_epoch = loaded.epochs.latest  # constant: see storage.log.recovery.FIRST_EPOCH
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point  # guarded by: lock; read by anyone
        segments = loaded.segments
        self.activate(segments)
        # See `storage.segment.segment.LogView`.
        self.view = (loaded.log_end_offset, segments, self._active.size)
        self.size = sum([segment.size for segment in segments])  # guarded by: lock
        self._unwritten = 0  # bytes since write-back was last started
        self.bytes_in = 0
        self.records_in = 0
        self.batches_in = 0
        self.is_closed = False
        self.watchers = {}  # loop only; see `Watcher`

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which all transactions are decided."""
        return self.stable_end()

    cpdef int64_t stable_end(self) except? -2:
        """Return the earliest open transaction's first offset, or else the log end offset."""
        cdef long long first
        for first in self._transactions.values():  # the earliest comes first
            return max(first, self.log_start_offset)
        return self.log_end_offset

    cpdef append(
        self, object log: Log, ValidatedBatch batch, object origin: Origin = CLIENT,
        bint may_wait=False,
    ):
        """Stamp a batch with its offsets and write it into the page cache.

        The batch gets the result: its offset, or the error, which is a `KafkaError` unless this
        broker is at fault. The order is Kafka's: roll, producer check, write, end offset, producer
        state. If the write fails, the segment is cut back, the directory refuses writes for as long
        as `LogDirectory` says, and the log is as it was. At the end the watchers are notified.

        With ``may_wait`` a batch that is its producer's next may wait for others of its round (see
        `Appends`). Its bytes must not change until then, and it has no result before.
        """
        cdef long long before = self.log_end_offset
        batch.log = log
        self.lock.take()
        try:
            self._take(log, batch, origin, may_wait)
        except Exception as error:  # the caller gets it from the batch
            batch.error = error
        finally:
            self.lock.drop()
        if self.watchers and self.log_end_offset != before:
            self.tell_watchers()

    cdef int _take(self, object log, ValidatedBatch batch, object origin, bint may_wait) except -1:
        """Take a batch to be written, at once unless it may wait; the caller holds the lock."""
        cdef ProducerEntry producer = None
        cdef bint is_next = batch.producer_id < 0
        if not is_next and not batch.attributes & (TRANSACTIONAL | CONTROL):
            producer = self.producers.producers.get(batch.producer_id)
            is_next = producer is not None and producer.is_followed_by(
                batch.producer_epoch, batch.base_sequence
            )
            if not is_next:
                producer = None
        if not is_next and self._held:
            self.write_held(log)  # the check needs the producer's state after the waiting batches
        self.check_open(log, batch.size, origin is CLIENT)
        if not is_next:
            self.find_room(log, batch)
            first = log.check_producer(batch, origin)
            if first is not None:
                batch.repeat(first, self.log_start_offset)
                batch.flush_due = first.last_offset >= self.recovery_point and self.is_flush_due()
                return 0
        batch.producer = producer
        self._held.append(batch)
        if producer is not None:
            producer.expect(batch.base_sequence, batch.last_offset_delta)
        if not is_next or not may_wait or self.rules.flush_messages != INT64_MAX:
            self.write_held(log)
        elif not self._is_awaited:
            self._is_awaited = True
            self._appends.add(log)
        return 0

    cpdef write(self, object log: Log):
        """Write the batches that wait; each batch gets its result."""
        cdef long long before = self.log_end_offset
        self.lock.take()
        try:
            self.write_held(log)
        finally:
            self.lock.drop()
        if self.watchers and self.log_end_offset != before:
            self.tell_watchers()

    cdef int write_held(self, object log) except -1:
        """Write the batches that wait, in as few calls as segments and index entries allow.

        The caller holds the lock. If a write fails, all batches after it fail, too, and their
        producers may send them again.
        """
        cdef list held = self._held
        cdef Py_ssize_t first = 0
        cdef ValidatedBatch batch
        if self._is_awaited:
            self._is_awaited = False
            self._appends.logs.remove(log)
        try:
            while first < len(held):
                first = self.write_run(log, first)
        except Exception as error:  # any error: the callers get it from the batches
            first = len(held)
            while first:
                first -= 1
                batch = held[first]
                if batch.base_offset < 0:
                    batch.error = error
                    if batch.producer is not None:
                        batch.producer.next_sequence = batch.base_sequence
        held.clear()
        return 0

    cdef Py_ssize_t write_run(self, object log, Py_ssize_t first) except -1:
        """Write a run: the batch at ``first`` and those that fit after it; return the run's end.

        A run ends before an index entry and before a new segment, so that both are at the same
        place as if each batch had been written alone.
        """
        cdef list held = self._held
        cdef ValidatedBatch batch = held[first]
        cdef ProducerEntry producer
        cdef long long base_offset, next_sequence
        cdef Run run
        self.check_open(log, 0, False)  # 0 bytes: the room was checked when the batch came
        self.find_room(log, batch)
        run = self.stamp_run(first)
        buffer = batch.buffer
        if run.stop > first + 1:
            join(held, first, run.stop, self._appends.joined)
            buffer = self._appends.joined[:run.size]
        try:
            self._active_end.write(self._active, buffer, run.size)
        except OSError as error:
            raise self.directory.fail(error) from error
        while first < run.stop:
            batch = held[first]
            base_offset = self.log_end_offset
            self.note(log, batch)
            batch.base_offset = base_offset
            batch.log_start_offset = self.log_start_offset
            producer = batch.producer
            if producer is not None:
                next_sequence = producer.next_sequence
                producer.note(
                    batch.base_sequence, batch.last_offset_delta, base_offset, batch.max_timestamp
                )
                producer.next_sequence = next_sequence  # the sequence after its waiting batches
            elif batch.producer_id >= 0:
                try:
                    log.note_producer(batch, base_offset, self._active)
                except Exception as error:  # the batch is in the log nevertheless
                    batch.error = error
            batch.flush_due = self.is_flush_due()
            first += 1
        return run.stop

    cdef Run stamp_run(self, Py_ssize_t first) except *:
        """Stamp the batches of the run from ``first`` on; return the run's end and its bytes."""
        cdef list held = self._held
        cdef SegmentEnd end = self._active_end
        cdef bint is_alone = end.size == 0 or end.since_index > end.index_interval_bytes
        cdef long long base_offset = self.log_end_offset
        cdef long long last_offset, whole
        cdef ValidatedBatch batch
        cdef Run run
        run.stop = first
        run.size = 0
        while run.stop < len(held):
            batch = held[run.stop]
            whole = run.size + batch.size
            last_offset = base_offset + batch.last_offset_delta
            if run.size and (
                is_alone
                or whole > JOINED_BYTES
                or end.since_index + run.size > end.index_interval_bytes
                or end.should_roll(
                    self._active, whole, batch.max_timestamp, last_offset, self._clock
                )
            ):
                break
            stamp(batch.buffer, batch.size, base_offset, self.leader_epoch)
            base_offset = last_offset + 1
            run.size = whole
            run.stop += 1
        return run

    cpdef bint is_flush_due(self) except *:
        """Tell whether `flush.messages` asks for an fsync before the last append is answered."""
        return self.log_end_offset - self.recovery_point >= self.rules.flush_messages

    cdef int check_open(self, object log, long long size, bint is_client) except -1:
        """Count the bytes of a batch; raise KafkaStorageError if nothing can be appended."""
        cdef Appends appends = self._appends
        if is_client:
            if appends.taken + size > appends.look_at:
                appends.look_again()
            refusal = self.directory.client_refusal
        else:
            refusal = self.directory.refusal
        if self.is_closed or refusal is not None:
            raise log.refusal()
        appends.taken += size
        return 0

    cdef int find_room(self, object log, ValidatedBatch batch) except -1:
        """Roll if a batch does not fit into the active segment; the caller holds the lock."""
        cdef long long last_offset = self.log_end_offset + batch.last_offset_delta
        cdef bint is_over
        try:
            is_over = self._active_end.should_roll(
                self._active, batch.size, batch.max_timestamp, last_offset, self._clock
            )
        except OSError as error:  # once after a start the check reads the segment's first batch
            raise log.unreadable(error) from error
        if is_over:
            log.begin_segment()
        return 0

    cdef int note(self, object log, ValidatedBatch batch) except -1:
        """Move the end of the log past a batch that was written, and publish it."""
        cdef long long size = batch.size
        cdef long long last_offset = self.log_end_offset + batch.last_offset_delta
        self._active_end.note(self._active, size, last_offset, batch.max_timestamp)
        self.view = (last_offset + 1, self.view[1], self._active_end.size)
        self.log_end_offset = last_offset + 1
        self.size += size
        self.bytes_in += size
        self._appends.written += size
        self.records_in += batch.count
        self.batches_in += 1
        self._unwritten += size
        if self._unwritten >= self._appends.write_back_bytes:
            log.start_write_back(self._active, self._unwritten)
            self._unwritten = 0
        return 0

    cdef int activate(self, tuple segments) except -1:
        """Append to the last of these segments from now on."""
        self._active = segments[len(segments) - 1]
        self._active_end = self._active.end
        return 0

    def add_segment(self, segment: LogSegment):
        """Append to a new, empty segment from now on; the caller holds the lock.

        The recovery point stays below the end of the segment before until that segment is flushed
        once more.
        """
        end_offset, segments, _ = self.view
        self.recovery_point = min(self.recovery_point, end_offset - 1)
        self.view = (end_offset, (*segments, segment), 0)
        self.activate((segment,))
        self._unwritten = 0

    def show(self, tuple segments: tuple[LogSegment, ...]):
        """Show readers other segments with the same end; the caller holds the lock."""
        end_offset, before, end_position = self.view
        self.view = (end_offset, segments, end_position)
        self.activate(segments)
        self.size += sum([each.size for each in segments]) - sum([each.size for each in before])

    def start_at(self, long long offset):
        """Raise the log start offset; the caller holds the lock.

        Records below it count as deleted, but are not flushed by that: the recovery point stays.
        """
        self.log_start_offset = offset

    def note_flushed(self, long long offset):
        """Raise the recovery point: all below it is on the disk. The caller holds the lock."""
        self.recovery_point = max(self.recovery_point, offset)

    def move(
        self, directory: LogDirectory, tuple segments: tuple[LogSegment, ...],
        long long recovery_point,
    ):
        """Continue in another log directory, with copied segments; the caller holds the lock."""
        self.show(segments)
        self.directory = directory
        self.recovery_point = recovery_point

    def obey(self, config: TopicConfig):
        """Use these settings from the next append on; the caller holds the lock."""
        self.rules = PlainRules(config)

    def close(self):
        """Refuse everything from now on; the caller holds the lock."""
        self.is_closed = True

    cpdef tell_watchers(self):
        """Tell the watchers that the log has changed. Only the event loop calls this."""
        for each in tuple(self.watchers):
            each.log_changed()


cdef int stamp(object buffer, long long size, long long base_offset, long long leader_epoch) except -1:
    """Write base offset, length and leader epoch, which the CRC does not cover."""
    cdef Target target = no_target()
    cdef bint is_whole
    acquire_target(buffer, target)
    is_whole = target.len == size and size >= HEADER_SIZE
    if is_whole:
        write_int64(target.buf, 0, base_offset)
        write_int32(target.buf, LENGTH_POSITION, size - LOG_OVERHEAD)
        write_int32(target.buf, LEADER_EPOCH_POSITION, leader_epoch)
    release_target(target)
    if not is_whole:
        raise ValueError(f"{size} bytes are not one batch")
    return 0


cdef int join(list held, Py_ssize_t first, Py_ssize_t stop, object joined) except -1:
    """Copy the batches of a run into ``joined``, one after the other."""
    cdef Target room = no_target()
    cdef Region region = no_region()
    cdef Py_ssize_t filled = 0
    cdef ValidatedBatch batch
    acquire_target(joined, room)
    while first < stop:
        batch = held[first]
        acquire(batch.buffer, region)
        copy(room.buf, filled, region.buf, 0, batch.size)
        release(region)
        filled += batch.size
        first += 1
    release_target(room)
    return 0
