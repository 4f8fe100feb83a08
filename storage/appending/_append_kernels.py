"""The end of a partition, where it grows. Compiled by Cython.

A batch that breaks no rule is stamped, written and counted in compiled code; only the write leaves
it. For what is rare the log or the segment is asked. The types of C stand in
``_append_kernels.pxd``.
"""

import logging
from typing import TYPE_CHECKING, Any

import cython

from siltstone.protocol.records.compression import MAX_RATIO
from siltstone.storage.appending.values import Origin
from siltstone.storage.producers.entry import KEPT_BATCHES, AppendedBatch

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.protocol.core import take_plain
    from siltstone.protocol.core._format import (
        INT32_MAX,
        INT64_MAX,
        acquire,
        acquire_target,
        copy,
        no_region,
        no_target,
        release,
        release_target,
        row_of,
        slot_of,
        write_int32,
        write_int64,
    )
    from siltstone.protocol.records.batch import CODEC_MASK, CONTROL, HEADER_SIZE, TRANSACTIONAL
    from siltstone.storage.files._disk import write_at
    from siltstone.storage.log_lock import LogLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from typing_extensions import Buffer

    from siltstone.config.topic import TopicConfig
    from siltstone.protocol.errors import KafkaError
    from siltstone.storage.clock import Clock
    from siltstone.storage.directory.log_directory import LogDirectory
    from siltstone.storage.log.epochs import LeaderEpochs
    from siltstone.storage.log.watcher import Watcher
    from siltstone.storage.topic_partition import TopicPartition

    class Segment(Protocol):
        """The segment that grows, as its end sees it: for what is rare."""

        @property
        def end(self) -> "SegmentEnd":
            """Its end."""

        @property
        def size(self) -> int:
            """How many bytes it has."""

        @property
        def first_batch_timestamp(self) -> int:
            """The max timestamp of its first batch, -1 without a timestamp or a batch."""

        def activate(self) -> None:
            """Open it to write."""

        def write_rest(self, buffer: Buffer, written: int) -> None:
            """Write the rest of a batch of which the system took only a part."""

        def add_index_entries(self, last_offset: int, position: int) -> None:
            """Add the index entries of a batch."""

    class Log(Protocol):
        """The log that grows, as its end sees it: for what is rare."""

        @property
        def end(self) -> "LogEnd":
            """Its end."""

        @property
        def topic_partition(self) -> TopicPartition:
            """Its topic and its number."""

        def refusal(self) -> KafkaError:
            """Return why nothing can be appended, or nothing of a client."""

        def begin_segment(self) -> Segment:
            """Start a new active segment, or raise KafkaStorageError."""

        def unreadable(self, error: OSError) -> KafkaError:
            """Return what a client is told whose request had to read a file in vain."""

        def start_write_back(self, segment: Any, size: int) -> None:
            """Ask the kernel to begin writing the last bytes of a segment to the disk."""

        def check_producer(self, batch: "ValidatedBatch", origin: Origin) -> AppendedBatch | None:
            """Return the batch that this one repeats; refuse one that may not be written."""

        def note_producer(self, batch: "ValidatedBatch", base_offset: int, segment: Any) -> None:
            """Note a written batch in the producer state."""

    class Producers(Protocol):
        """The producers of a log."""

        @property
        def producers(self) -> Mapping[int, "ProducerEntry"]:
            """The known producers, by id."""

        @property
        def first_unstable_offset(self) -> int | None:
            """The first offset of the earliest open transaction."""

    class Folder(Protocol):
        """The folder of a log."""

        @property
        def directory(self) -> LogDirectory:
            """The log directory."""

        @property
        def config(self) -> TopicConfig:
            """The settings of the topic."""

    class LoadedPartition(Protocol):
        """The parts of a log that a start found; `storage.log.recovery` has all of it."""

        @property
        def folder(self) -> Folder:
            """Where it is."""

        @property
        def segments(self) -> tuple[Segment, ...]:
            """Its segments, from the oldest to the active one."""

        @property
        def epochs(self) -> LeaderEpochs:
            """The leader epochs."""

        @property
        def producers(self) -> Producers:
            """The producer state."""

        @property
        def log_start_offset(self) -> int:
            """The first offset that can be read."""

        @property
        def log_end_offset(self) -> int:
            """The offset of the next record."""

        @property
        def recovery_point(self) -> int:
            """The offset below which all is on the disk."""


_logger = logging.getLogger(__name__)

WRITE_BACK_BYTES = 16 << 20
"""Appended bytes after which the kernel is asked to start writing them."""

JOINED_BYTES = 64 << 10
"""Batches that wait are written together up to this size: what a connection receives at once."""

UNKNOWN = -2
"""Stands for a timestamp that was not looked up yet; -1 says that no record has one."""

_CLIENT = Origin.CLIENT
_MIN_RECORD_BYTES = 7
_KEPT_BY = (
    frozenset({"producer", "uncompressed"}),
    frozenset({"producer", "gzip"}),
    frozenset({"producer", "snappy"}),
    frozenset({"producer", "lz4"}),
    frozenset({"producer", "zstd"}),
)
"""By codec, the values of `compression.type` that store it as it came."""


class ValidatedBatch:
    """Exactly one batch that may be stamped and written, and what came of it.

    The append time is -1 with CreateTime. `LogEnd.append` sets ``log`` and what came of it: the
    offset of the first record, where the log began then, and whether the caller must await
    `Log.flush` on an io thread before it answers; or ``error``. Of a ``duplicate`` it is what came
    of it the first time. As long as it waits to be written there is no offset and no error.
    ``partition`` is a note of the handler: what it is in its request.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "buffer",
        "count",
        "duplicate",
        "error",
        "flush_due",
        "last_offset_delta",
        "log",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "partition",
        "producer",
        "producer_epoch",
        "producer_id",
        "size",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # the fields of a batch
        self,
        buffer: memoryview,
        size: int,
        last_offset_delta: int,
        count: int,
        attributes: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        log_append_time_ms: int,
    ) -> None:
        self.buffer = buffer
        self.size = size
        self.last_offset_delta = last_offset_delta
        self.count = count
        self.attributes = attributes
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.log_append_time_ms = log_append_time_ms
        self.await_outcome()

    def await_outcome(self) -> None:
        """Have nothing come of it yet."""
        self.base_offset = -1
        self.log_start_offset = -1
        self.duplicate = False
        self.flush_due = False
        self.error: Exception | None = None
        self.log: Any = None
        self.partition = -1
        self.producer: ProducerEntry | None = None

    def repeat(self, first: "AppendedBatch", log_start_offset: int) -> None:
        """Have come of it what came of the same batch the first time."""
        self.duplicate = True
        self.base_offset = first.first_offset
        self.log_append_time_ms = first.timestamp
        self.log_start_offset = log_start_offset

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_awaited(self) -> bool:
        """Tell whether nothing has come of it yet."""
        return self.base_offset < 0 and self.error is None


class PlainRules:
    """A topic's rules as numbers, for common batches: valid ones that are stored as they came.

    `storage.appending.validation` has every rule, in words.
    """

    __slots__ = (
        "after_ms",
        "before_ms",
        "flush_messages",
        "kept_codecs",
        "keys_required",
        "max_bytes",
    )

    def __init__(self, config: "TopicConfig") -> None:
        max_bytes = min(config.max_message_bytes, config.segment_bytes)
        self.max_bytes = 0 if config.is_log_append_time else max_bytes
        self.before_ms = config.message_timestamp_before_max_ms
        self.after_ms = config.message_timestamp_after_max_ms
        self.keys_required = config.is_compacted
        self.flush_messages = config.flush_messages
        self.kept_codecs = 0  # one bit for each codec
        for codec, kept_by in enumerate(_KEPT_BY):
            if config.compression_type in kept_by:
                self.kept_codecs |= 1 << codec

    def take(self, records: memoryview, now_ms: int) -> ValidatedBatch | None:
        """Return the batch, ready to be appended; None if it is one for `validation.validate`."""
        size = len(records)
        if size > self.max_bytes:
            return None
        plain = take_plain(
            records,
            now_ms - self.before_ms,
            INT64_MAX if self.after_ms > INT64_MAX - now_ms else now_ms + self.after_ms,
            self.keys_required,
            TRANSACTIONAL,
            self.kept_codecs,
        )
        codec = plain.attributes & CODEC_MASK
        if not plain.count or (
            codec and plain.count > (size - HEADER_SIZE) * MAX_RATIO[codec] // _MIN_RECORD_BYTES
        ):
            return None
        batch = ValidatedBatch.__new__(ValidatedBatch)  # __init__ costs as much as the rest
        batch.buffer = records
        batch.size = size
        batch.last_offset_delta = plain.last_offset_delta
        batch.count = plain.count
        batch.attributes = plain.attributes
        batch.max_timestamp = plain.max_timestamp
        batch.producer_id = plain.producer_id
        batch.producer_epoch = plain.producer_epoch
        batch.base_sequence = plain.base_sequence
        batch.log_append_time_ms = -1
        batch.await_outcome()
        return batch


class ProducerEntry:
    """One producer: its epochs, its last batches and where its open transaction began.

    ``next_sequence`` is the only one that the next batch may have; 0 while the epoch has no batch.
    It changes only after the log was written (KAFKA-6683), or is set back if the write fails.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1
        self.next_sequence = 0
        self.batches: list[AppendedBatch] = []  # the oldest first, KEPT_BATCHES at most

    @property
    def last_batch(self) -> AppendedBatch | None:
        """Return the newest batch of the epoch."""
        batches = self.batches
        return batches[len(batches) - 1] if batches else None

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> AppendedBatch | None:
        """Return the batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def begin_epoch(self, epoch: int) -> None:
        """Forget the batches of the epoch before, if this is another one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = 0

    def is_followed_by(self, epoch: int, first_sequence: int) -> bool:
        """Tell whether a batch is the producer's next one, and no transaction is open."""
        return (
            first_sequence == self.next_sequence
            and epoch == self.epoch
            and self.transaction_first_offset < 0
        )

    def expect(self, first_sequence: int, last_offset_delta: int) -> None:
        """Take the batch behind one that waits to be written as the producer's next."""
        self.next_sequence = (first_sequence + last_offset_delta + 1) & INT32_MAX

    def note(
        self, first_sequence: int, last_offset_delta: int, first_offset: int, timestamp: int
    ) -> None:
        """Note a batch that was written: it is the newest."""
        last_sequence = -1
        if first_sequence >= 0:
            last_sequence = (first_sequence + last_offset_delta) & INT32_MAX
        last_offset = first_offset + last_offset_delta
        fields = (first_sequence, last_sequence, first_offset, last_offset, timestamp)
        self._add(row_of(AppendedBatch, fields), last_sequence, timestamp)

    def add(self, batch: AppendedBatch) -> None:
        """Take a batch as the newest."""
        self._add(batch, batch.last_sequence, batch.timestamp)

    def _add(self, batch: AppendedBatch, last_sequence: int, timestamp: int) -> None:
        batches = self.batches
        batches.append(batch)
        if len(batches) > KEPT_BATCHES:
            del batches[0]
        self.next_sequence = (last_sequence + 1) & INT32_MAX
        self.last_timestamp = timestamp


class SegmentEnd:
    """Where a segment ends, and the times of what is in it: all that an append changes.

    What is below ``size`` is written. It belongs to one owner at a time (``Log.lock``); readers
    take ``size`` without the lock. A call gets the segment, for what is rare; the segment changes
    no field.
    """

    __slots__ = (
        "base_offset",
        "created_ms",
        "fd",
        "first_timestamp",
        "index_interval_bytes",
        "is_index_full",
        "max_timestamp",
        "offset_of_max_timestamp",
        "roll_after_ms",
        "segment_bytes",
        "since_index",
        "size",
    )

    def __init__(self, base_offset: int, size: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.fd = -1  # of the .log while it is written, else -1
        self.first_timestamp = UNKNOWN  # of the first batch
        self.max_timestamp = UNKNOWN
        self.offset_of_max_timestamp = base_offset  # last offset of the batch that has it
        self.since_index = 0  # bytes since the last index entry
        self.is_index_full = False
        self.obey(INT32_MAX, INT32_MAX, INT64_MAX)

    def obey(self, segment_bytes: int, index_interval_bytes: int, roll_after_ms: int) -> None:
        """Note limits that count from the next append on."""
        self.segment_bytes = segment_bytes
        self.index_interval_bytes = index_interval_bytes
        self.roll_after_ms = roll_after_ms

    def open(self, fd: int) -> None:
        """Write by this descriptor of the ``.log`` from now on."""
        self.fd = fd

    def rest(self) -> None:
        """Write no more until the ``.log`` is opened again."""
        self.fd = -1
        self.is_index_full = False

    def resize(self, size: int) -> None:
        """Set the size to that of the ``.log``."""
        self.size = size
        if not size:
            self.first_timestamp = UNKNOWN

    def begin_interval(self, since_index: int = 0) -> None:
        """Count the bytes up to the next index entry from here on."""
        self.since_index = since_index

    def note_full(self, is_full: bool) -> None:
        """Take note of whether the indexes have room for more entries."""
        self.is_index_full = is_full

    def note_first(self, timestamp: int) -> None:
        """Take note of the largest timestamp of the first batch."""
        self.first_timestamp = timestamp

    def note_max(self, timestamp: int, offset: int) -> None:
        """Take note of the largest timestamp, and of the last offset of the batch that has it."""
        self.max_timestamp = timestamp
        self.offset_of_max_timestamp = offset

    def follow(self, other: "SegmentEnd") -> None:
        """Take over the fields of the end of another segment, which has the same bytes."""
        self.size = other.size
        self.first_timestamp = other.first_timestamp
        self.max_timestamp = other.max_timestamp
        self.offset_of_max_timestamp = other.offset_of_max_timestamp
        self.since_index = other.since_index

    def should_roll(
        self,
        segment: "Segment",
        size: int,
        max_timestamp: int,
        last_offset: int,
        clock: "Clock",
    ) -> bool:
        """Tell whether a batch has to go into a new segment (docs/log.md).

        The time is that of the records: from the first batch of the segment to this one. Only if
        the first has none, it is the age of this object. An empty segment rolls only for an offset
        that it cannot hold (KAFKA-6388).
        """
        if last_offset - self.base_offset > INT32_MAX:
            return True
        if not self.size:
            return False
        if self.size + size > self.segment_bytes or self.is_index_full:
            return True
        first = self.first_timestamp
        if first < -1:  # not looked up yet
            first = segment.first_batch_timestamp
        waited = max_timestamp - first if first >= 0 else clock.now_ms() - self.created_ms
        return waited > self.roll_after_ms

    def write(self, segment: "Segment", buffer: "Buffer", size: int) -> None:
        """Write ``size`` bytes of batches, stamped already, at the end; `note` counts each.

        Raises:
            OSError: Nothing of them counts as written.
        """
        position = self.size
        if self.fd < 0:
            segment.activate()
        written = write_at(self.fd, buffer, position)
        if written != size:
            segment.write_rest(buffer, written)

    def note(self, segment: "Segment", size: int, last_offset: int, max_timestamp: int) -> None:
        """Count the next batch of what was written.

        An index entry is added when more than ``index.interval.bytes`` went by since the last one.
        It names the batch's last offset and its start; the first batch never has one.
        """
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.since_index > self.index_interval_bytes:
            segment.add_index_entries(last_offset, position)
        self.since_index += size
        if not position:
            self.first_timestamp = max_timestamp
        self.size = position + size


class Appends:
    """The logs that have batches of this round of the loop which are not written yet (loop only).

    Requests may come together, on one connection or on several. A batch that may wait stays in its
    `LogEnd` until `write`, where each log writes all of its own by one call. Nobody sees it before:
    `write` is called before an answer leaves, before a request is served that is no Produce, and
    before a log goes. What does not wait is written behind what does.

    ``taken`` are the bytes of all batches so far, ``written`` those that wait no more. Before a
    client's would pass ``look_at``, ``look`` is called, which looks at the room of the disks and
    sets that again.
    """

    __slots__ = ("joined", "logs", "look", "look_at", "taken", "written")

    def __init__(self) -> None:
        self.look: Callable[[], None] | None = None
        self.look_at = INT64_MAX
        self.taken = 0
        self.written = 0
        self.logs: list[Log] = []
        self.joined = memoryview(bytearray(JOINED_BYTES))

    def add(self, log: "Log") -> None:
        """Write the batches of a log, too."""
        self.logs.append(log)

    def look_again(self) -> None:
        """Look at the room of the disks, since as much was taken as there was."""
        if not self.logs:
            self.taken = self.written  # some was refused behind its count, or not written
        if self.look is not None:
            self.look()

    def write(self) -> None:
        """Write all that waits, and tell the watchers of each log once.

        What came of a batch stands in it. A log that fails is no other log's matter, and neither
        is a watcher that does.
        """
        while self.logs:
            log = self.logs[0]
            end: LogEnd = log.end
            try:
                end.write(log)
            except Exception:  # the bytes of the others are not kept for longer
                _logger.exception("watcher failed partition=%s", log.topic_partition)


class LogEnd:
    """Where a partition grows: its offsets, its counters and the append that moves them.

    Only the event loop appends; ``lock`` is for the few others that touch the same memory. ``view``
    is what readers see: they take it once, without the lock, and an append shows in it after its
    bytes are written. A call gets the `Log`, for what is rare: a refusal, a new segment, a producer
    that is not known yet. Nobody else changes a field.
    """

    __slots__ = (
        "_appends",
        "_clock",
        "_held",
        "_is_awaited",
        "_unwritten",
        "batches_in",
        "bytes_in",
        "directory",
        "is_closed",
        "leader_epoch",
        "lock",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "records_in",
        "recovery_point",
        "rules",
        "size",
        "view",
        "watchers",
    )

    def __init__(self, loaded: "LoadedPartition", clock: "Clock", appends: Appends) -> None:
        self._clock = clock
        self._appends = appends
        self._held: list[ValidatedBatch] = []  # loop only; they wait to be written
        self._is_awaited = False  # whether `Appends` has the log
        self.lock = LogLock()
        self.directory: LogDirectory = loaded.folder.directory
        self.rules = PlainRules(loaded.folder.config)  # loop only; a new value replaces it
        self.producers: Producers = loaded.producers  # guarded by: lock
        self.leader_epoch = loaded.epochs.latest  # constant: see storage.log.recovery.FIRST_EPOCH
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point  # guarded by: lock; read by anyone
        segments = loaded.segments
        # See `storage.log.view`.
        self.view: tuple[int, tuple[Any, ...], int] = (
            loaded.log_end_offset,
            segments,
            segments[len(segments) - 1].size,
        )
        self.size = sum([segment.size for segment in segments])  # guarded by: lock
        self._unwritten = 0  # bytes since write-back was last started
        self.bytes_in = 0
        self.records_in = 0
        self.batches_in = 0
        self.is_closed = False
        self.watchers: dict[Watcher, None] = {}  # loop only; see there

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which all transactions are decided."""
        return self.stable_end()

    def stable_end(self) -> int:
        """Return the first offset of the earliest open transaction, else the log end offset."""
        first: int | None = slot_of(self.producers, "first_unstable_offset")
        if first is None:
            return self.log_end_offset
        return max(first, self.log_start_offset)

    def append(
        self,
        log: "Log",
        batch: ValidatedBatch,
        origin: Origin = Origin.CLIENT,
        may_wait: bool = False,  # C has no names
    ) -> None:
        """Stamp a batch with its offsets and write it, as far as the page cache.

        What came of it stands in the batch: its offset, or the error, a `KafkaError` unless this
        broker is at fault. The order is Kafka's: roll, producer check, write, end offset, producer
        state. If the write fails the segment is cut back, the directory refuses writes for as long
        as `LogDirectory` says, and the log is as it was. The log's watchers are told at the end.

        With ``may_wait`` a batch that is its producer's next may wait for others of its round (see
        `Appends`). Its bytes must stay until then, and nothing has come of it before.
        """
        before = self.log_end_offset
        batch.log = log
        lock = self.lock
        lock.take()
        try:
            self._append(log, batch, origin, may_wait)
        except Exception as error:  # noqa: BLE001  # the asker has it from the batch
            batch.error = error
        finally:
            lock.drop()
        if self.watchers and self.log_end_offset != before:
            self.tell_watchers()

    def _append(self, log: "Log", batch: ValidatedBatch, origin: Origin, may_wait: bool) -> None:
        """Append; the caller holds the lock."""
        producer_id = batch.producer_id
        producer = None
        is_next = producer_id < 0
        if not is_next and not batch.attributes & (TRANSACTIONAL | CONTROL):
            producer = self._find_producer(producer_id, batch.producer_epoch, batch.base_sequence)
            is_next = producer is not None
        if not is_next and self._held:
            self._write_held(log)  # its producer's state counts
        self._check_open(log, batch.size, origin is _CLIENT)
        if not is_next:
            self._find_room(log, batch.size, batch.last_offset_delta, batch.max_timestamp)
            first = log.check_producer(batch, origin)
            if first is not None:
                batch.repeat(first, self.log_start_offset)
                batch.flush_due = first.last_offset >= self.recovery_point and self.is_flush_due()
                return
        batch.producer = producer
        self._held.append(batch)
        if producer is not None:
            producer.expect(batch.base_sequence, batch.last_offset_delta)
        if not is_next or not may_wait or self.rules.flush_messages != INT64_MAX:
            self._write_held(log)
        elif not self._is_awaited:
            self._is_awaited = True
            self._appends.add(log)

    def write(self, log: "Log") -> None:
        """Write the batches that wait; what came of each stands in it."""
        before = self.log_end_offset
        lock = self.lock
        lock.take()
        try:
            self._write_held(log)
        finally:
            lock.drop()
        if self.watchers and self.log_end_offset != before:
            self.tell_watchers()

    def _write_held(self, log: "Log") -> None:
        """Write what waits, in as few calls as segments and entries allow; the lock is held.

        Where a write fails, so have all batches behind it, and their producers may send them again.
        """
        if self._is_awaited:
            self._is_awaited = False
            self._appends.logs.remove(log)
        held = self._held
        first = 0
        try:
            while first < len(held):
                first = self._write_run(log, first)
        except Exception as error:  # noqa: BLE001  # whatever it is: the askers have it from these
            first = len(held)
            while first:
                first -= 1
                batch: ValidatedBatch = held[first]
                if batch.base_offset < 0:
                    batch.error = error
                    producer = batch.producer
                    if producer is not None:
                        producer.next_sequence = batch.base_sequence
        held.clear()

    def _write_run(self, log: "Log", first: int) -> int:
        """Write the first batch that waits and those that fit behind it; return how far it came.

        A run ends before an index entry and before a new segment, so that both are where they
        would be if each batch had been written alone.
        """
        held = self._held
        batch: ValidatedBatch = held[first]
        self._check_open(log, 0, False)  # there was room when it was taken
        segment = self._find_room(log, batch.size, batch.last_offset_delta, batch.max_timestamp)
        stop, size = self._stamp_run(segment, first)
        buffer = batch.buffer
        if stop > first + 1:
            joined = self._appends.joined
            _join(held, first, stop, joined)
            buffer = joined[:size]
        end = slot_of(segment, "end")
        try:
            end.write(segment, buffer, size)
        except OSError as error:
            raise self.directory.fail(error) from error
        while first < stop:
            batch = held[first]
            base_offset = self.log_end_offset
            self._note(log, segment, batch)
            batch.base_offset = base_offset
            batch.log_start_offset = self.log_start_offset
            producer = batch.producer
            if producer is not None:
                next_sequence = producer.next_sequence
                producer.note(
                    batch.base_sequence, batch.last_offset_delta, base_offset, batch.max_timestamp
                )
                producer.next_sequence = next_sequence  # behind all of it that wait
            elif batch.producer_id >= 0:
                try:
                    log.note_producer(batch, base_offset, segment)
                except Exception as error:  # noqa: BLE001  # it is in the log
                    batch.error = error
            batch.flush_due = self.is_flush_due()
            first += 1
        return stop

    def _stamp_run(self, segment: "Segment", first: int) -> tuple[int, int]:
        """Stamp the batches of a run that begins with one; return where it ends, and its bytes."""
        held = self._held
        end = slot_of(segment, "end")
        is_alone = end.size == 0 or end.since_index > end.index_interval_bytes
        base_offset = self.log_end_offset
        stop = first
        size = 0
        while stop < len(held):
            batch: ValidatedBatch = held[stop]
            whole = size + batch.size
            last_offset = base_offset + batch.last_offset_delta
            if size and (
                is_alone
                or whole > JOINED_BYTES
                or end.since_index + size > end.index_interval_bytes
                or end.should_roll(segment, whole, batch.max_timestamp, last_offset, self._clock)
            ):
                break
            _stamp(batch.buffer, batch.size, base_offset, self.leader_epoch)
            base_offset = last_offset + 1
            size = whole
            stop += 1
        return stop, size

    def is_flush_due(self) -> bool:
        """Tell whether `flush.messages` asks for an fsync before the last append is answered."""
        return self.log_end_offset - self.recovery_point >= self.rules.flush_messages

    def _check_open(self, log: "Log", size: int, is_client: bool) -> None:
        """Count the bytes of a batch; raise KafkaStorageError if nothing can be appended."""
        directory = self.directory
        appends = self._appends
        if is_client:
            if appends.taken + size > appends.look_at:
                appends.look_again()
            refusal = slot_of(directory, "client_refusal")
        else:
            refusal = slot_of(directory, "refusal")
        if self.is_closed or refusal is not None:
            raise log.refusal()
        appends.taken += size

    def _find_room(
        self, log: "Log", size: int, last_offset_delta: int, max_timestamp: int
    ) -> "Segment":
        """Return the segment that a batch goes into; the caller holds the lock."""
        segments = self.view[1]
        segment: Segment = segments[len(segments) - 1]
        end = slot_of(segment, "end")
        last_offset = self.log_end_offset + last_offset_delta
        try:
            is_over = end.should_roll(segment, size, max_timestamp, last_offset, self._clock)
        except OSError as error:  # it looks at the first batch, once since the start
            raise log.unreadable(error) from error
        return log.begin_segment() if is_over else segment

    def _note(self, log: "Log", segment: "Segment", batch: ValidatedBatch) -> None:
        """Publish the end behind a batch that was written."""
        size = batch.size
        last_offset = self.log_end_offset + batch.last_offset_delta
        end = slot_of(segment, "end")
        end.note(segment, size, last_offset, batch.max_timestamp)
        self.view = (last_offset + 1, self.view[1], end.size)
        self.log_end_offset = last_offset + 1
        self.size += size
        self.bytes_in += size
        self._appends.written += size
        self.records_in += batch.count
        self.batches_in += 1
        self._unwritten += size
        if self._unwritten >= WRITE_BACK_BYTES:
            log.start_write_back(segment, self._unwritten)
            self._unwritten = 0

    def _find_producer(self, producer_id: int, epoch: int, sequence: int) -> ProducerEntry | None:
        """Return the producer of a common batch, if this is its next one."""
        producer: ProducerEntry | None = slot_of(self.producers, "producers").get(producer_id)
        if producer is None or not producer.is_followed_by(epoch, sequence):
            return None
        return producer

    def add_segment(self, segment: "Segment") -> None:
        """Append to a new, empty segment from now on; the caller holds the lock.

        The recovery point stays below the end of the one before until that is flushed once more.
        """
        end_offset, segments, _ = self.view
        self.recovery_point = min(self.recovery_point, end_offset - 1)
        self.view = (end_offset, (*segments, segment), 0)
        self._unwritten = 0

    def show(self, segments: tuple[Any, ...]) -> None:
        """Show readers other segments with the same end; the caller holds the lock."""
        end_offset, before, end_position = self.view
        self.view = (end_offset, segments, end_position)
        self.size += sum([each.size for each in segments]) - sum([each.size for each in before])

    def start_at(self, offset: int) -> None:
        """Raise the log start offset; the caller holds the lock.

        What lies below is deleted, but not flushed by that: the recovery point stays.
        """
        self.log_start_offset = offset

    def note_flushed(self, offset: int) -> None:
        """Raise the recovery point: all below is on the disk; the caller holds the lock."""
        self.recovery_point = max(self.recovery_point, offset)

    def move(
        self, directory: "LogDirectory", segments: tuple[Any, ...], recovery_point: int
    ) -> None:
        """Continue in another log directory, with copies; the caller holds the lock."""
        self.show(segments)
        self.directory = directory
        self.recovery_point = recovery_point

    def obey(self, config: "TopicConfig") -> None:
        """Note settings that count from the next append on; the caller holds the lock."""
        self.rules = PlainRules(config)

    def close(self) -> None:
        """Refuse everything from now on; the caller holds the lock."""
        self.is_closed = True

    def tell_watchers(self) -> None:
        """Tell the watchers that the log has changed. For the event loop."""
        for each in tuple(self.watchers):
            each.log_changed()


def _stamp(buffer: "Buffer", size: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset, length and leader epoch, which the CRC does not cover."""
    target = no_target()
    acquire_target(buffer, target)
    is_whole = target.len == size and size >= 61
    if is_whole:
        write_int64(target.buf, 0, base_offset)
        write_int32(target.buf, 8, size - 12)
        write_int32(target.buf, 12, leader_epoch)
    release_target(target)
    if not is_whole:
        raise ValueError(f"{size} bytes are not one batch")


def _join(held: "list[ValidatedBatch]", first: int, stop: int, joined: memoryview) -> None:
    """Put the batches of a run one behind the other."""
    room = no_target()
    region = no_region()
    acquire_target(joined, room)
    filled = 0
    while first < stop:
        batch: ValidatedBatch = held[first]
        acquire(batch.buffer, region)
        copy(room.buf, filled, region.buf, 0, batch.size)
        release(region)
        filled += batch.size
        first += 1
    release_target(room)
