"""The producer state, which keeps a retry from being written twice (KIP-98).

Kafka: ``ProducerStateManager``. For each producer id and partition the state has the last five
batches, the epochs and the open transaction. The rules are in docs/log.md.
"""

import logging
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import PolicyViolation
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers.checks import Origin, ProducerBatch, check_data, check_marker
from siltstone.storage.producers.entry import (
    ALL_PRODUCERS_LIMIT,
    NO_LIMIT,
    PRODUCER_LIMIT,
    AppendedBatch,
    ProducerCount,
)
from siltstone.storage.producers.markers import Marker, MarkerKind, read_marker
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.snapshot import CorruptSnapshot, Snapshot
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Buffer

DAY_MS: Final = 86_400_000
NO_OFFSET: Final = -1

_logger = logging.getLogger(__name__)


class ProducerStateManager:
    """The producers of one partition, their open transactions and their snapshot files.

    `check` and `check_marker` change nothing. `update` and `update_marker` are called when the
    batch is in the log (KAFKA-6683), so a failed write changes nothing. The object has one owner at
    a time (``Log.lock``).

    Transactions open in the order of their first offsets, so the first of ``_open`` is the
    earliest. As the high watermark follows the log end offset, a transaction is decided as soon as
    its marker is written.

    The state covers all batches below ``map_end_offset``. A start rebuilds the state from the
    newest snapshot and the batches after that snapshot.
    """

    __slots__ = (
        "_all", "_directory", "_expiration_ms", "_max_count", "_open", "_snapshots",
        "_topic_partition", "_volatile", "map_end_offset", "producers",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        *,
        expiration_ms: int = DAY_MS,
        max_count: int = NO_LIMIT,
    ) -> None:
        self._directory = directory
        self._topic_partition = topic_partition
        self._expiration_ms = expiration_ms
        self._max_count = max_count
        self.producers: dict[int, ProducerEntry] = {}
        self._all = ProducerCount()  # until `count_in`
        # Producer id -> first offset, the earliest first; `LogEnd` has the same dict.
        self._open: dict[int, int] = {}
        self.map_end_offset = 0
        self._volatile = NO_OFFSET  # the offset of a snapshot that was written without an fsync
        self._snapshots: list[int] = []  # offsets, ascending: saves a listing (KAFKA-9393)

    def check(self, batch: ProducerBatch, origin: Origin = Origin.CLIENT) -> AppendedBatch | None:
        """Check a data batch that has a producer id against what its producer wrote before.

        Returns:
            The earlier batch, if ``batch`` repeats one of the last five: then it must not be
            written, and its answer is that of the earlier batch. None if it must be written.

        Raises:
            InvalidProducerEpoch: A newer epoch has written.
            OutOfOrderSequence: Batches before it are missing, or it is older than the last five.
            InvalidTxnState: It does not belong to the transaction that its producer has open.
            PolicyViolation: Its producer is new, and this partition has ``max_count`` producers
                already, or all partitions together have the most that are allowed.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            if origin is Origin.CLIENT:
                self._check_room()
            return None  # the first batch of an unknown producer may have any sequence
        if entry.is_followed_by(batch.producer_epoch, batch.base_sequence):
            return None
        return check_data(entry, batch, origin, self._topic_partition)

    def update(self, batch: ProducerBatch, base_offset: int) -> None:
        """Note a data batch that was written at ``base_offset``."""
        producer_id = batch.producer_id
        epoch = batch.producer_epoch
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self._remember(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.begin_epoch(epoch)
        entry.note(batch.base_sequence, batch.last_offset_delta, base_offset, batch.max_timestamp)
        if batch.attributes & TRANSACTIONAL and entry.transaction_first_offset < 0:
            self._begin_transaction(producer_id, entry, base_offset)

    def check_marker(
        self, batch: ProducerBatch, marker: Marker, origin: Origin = Origin.COORDINATOR
    ) -> None:
        """Check the marker that ends a transaction.

        Raises:
            InvalidProducerEpoch: A newer epoch of the producer has written.
            TransactionCoordinatorFenced: A newer coordinator has written.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is not None:
            check_marker(entry, batch, marker, origin, self._topic_partition)

    def update_marker(
        self,
        batch: ProducerBatch,
        marker: Marker,
        offset: int,
        note: Callable[[AbortedTransaction], object],
    ) -> None:
        """Note a marker that was written at ``offset``.

        If data was aborted, ``note`` is called with the entry for the transaction index of the
        marker's segment. If ``note`` raises, the transaction stays open: without the entry, readers
        of committed records would get aborted ones.
        """
        producer_id = batch.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self._remember(producer_id, batch.producer_epoch)
        entry.begin_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = batch.max_timestamp
        first_offset = entry.transaction_first_offset
        if first_offset < 0:
            return
        if marker.kind is MarkerKind.ABORT:
            others = (first for each, first in self._open.items() if each != producer_id)
            stable = next(others, offset + 1)
            note(AbortedTransaction(producer_id, first_offset, offset, stable))
        entry.transaction_first_offset = NO_OFFSET
        del self._open[producer_id]

    def replay(self, header: BatchHeader, batch: "Buffer") -> AbortedTransaction | None:
        """Note a batch that is in the log already; it was checked when it was written."""
        found: list[AbortedTransaction] = []
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_marker(batch)  # without one, the cleaner has removed the transaction
                if marker is not None:
                    self.update_marker(header, marker, header.last_offset, found.append)
            else:
                self.update(header, header.base_offset)
        self.map_end_offset = header.next_offset
        return found[0] if found else None

    def remove_expired(self, now_ms: int) -> int:
        """Forget the producers that have written nothing for too long, and return how many.

        As in Kafka the timestamps of their batches count, so a producer of old data may be
        forgotten at once. A producer with an open transaction stays.
        """
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if self._is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        self._all.add(-len(expired))
        return len(expired)

    def count_in(self, all_producers: ProducerCount) -> None:
        """Add the producers to this count, and take them from the count where they were before."""
        count = len(self.producers)
        self._all.add(-count)
        all_producers.add(count)
        self._all = all_producers

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Return the offsets of the snapshot files, ascending."""
        return tuple(self._snapshots)

    def scan_snapshots(self, offsets: Iterable[int] | None = None) -> None:
        """Note which snapshot files the folder has; later changes are followed in memory.

        ``offsets`` are those in their names, if the caller has listed the folder already.
        """
        if offsets is None:
            offsets = files.list_bases(self._directory, files.SNAPSHOT)
        self._snapshots = sorted(offsets)

    def load(self, log_start_offset: int, end_offset: int, now_ms: int) -> int:
        """Take the state from the newest usable snapshot, and return the offset to replay from.

        Snapshots above ``end_offset``, or at or below ``log_start_offset``, are deleted, and so is
        one that cannot be read. Producers that have expired are left out.
        """
        for offset in self.snapshots:
            if offset > end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        while self._snapshots:
            offset = self._snapshots[-1]
            producers = self._read_snapshot(offset)
            if producers is not None:
                self.install(producers, offset, now_ms)
                return offset
            self._delete_snapshot(offset)
        self.install({}, log_start_offset, now_ms)
        return log_start_offset

    def install(self, producers: dict[int, ProducerEntry], offset: int, now_ms: int) -> None:
        """Set the state to that of a snapshot, which covers all batches below ``offset``."""
        count = len(self.producers)
        self.producers = {
            producer_id: entry
            for producer_id, entry in producers.items()
            if not self._is_expired(entry, now_ms)
        }
        self._all.add(len(self.producers) - count)
        transactions = [
            (entry.transaction_first_offset, producer_id)
            for producer_id, entry in self.producers.items()
            if entry.transaction_first_offset >= 0
        ]
        self._open.clear()
        self._open.update((producer_id, first) for first, producer_id in sorted(transactions))
        self.map_end_offset = offset

    @property
    def open_transactions(self) -> Mapping[int, int]:
        """Return the first offset of each open transaction by producer id, the earliest first."""
        return self._open

    @property
    def first_unstable_offset(self) -> int | None:
        """Return the offset where the earliest open transaction begins, None without one."""
        return next(iter(self._open.values()), None)

    def truncate_fully(self, offset: int) -> None:
        """Forget everything, including snapshots: the log begins again at ``offset``."""
        for snapshot in self.snapshots:
            self._delete_snapshot(snapshot)
        self.install({}, offset, 0)

    def capture(self, offset: int | None = None) -> Snapshot | None:
        """Return a snapshot to be written, None if a durable one is at this offset already.

        ``offset`` becomes the map's end offset; it is the log end offset on a roll and on close.
        The snapshot is only in memory; write it without the lock.
        """
        if offset is not None:
            self.map_end_offset = offset
        end = self.map_end_offset
        if not self._snapshots or self._snapshots[-1] < end:
            insort(self._snapshots, end)
        elif end != self._volatile:
            return None
        data = producer_snapshot.encode(self.producers.items())
        return Snapshot(offset=end, data=data)

    def write_snapshot(self, snapshot: Snapshot, *, fsync: bool = True) -> None:
        """Write a snapshot into the folder; without ``fsync`` a power failure may take it.

        It may leave a part of it. The next start deletes the newest snapshot if it is damaged, but
        reads no other one: before others follow, `drop_volatile` deletes it.
        """
        snapshot.write(self._directory, fsync=fsync)
        if not fsync:
            self._volatile = snapshot.offset

    def drop_volatile(self) -> None:
        """Delete the snapshot that was written without an fsync.

        It has to be gone before a segment begins at its offset: later starts would keep it.

        Raises:
            OSError: The disk refuses it.
        """
        if self._volatile != NO_OFFSET:
            files.unlink(self._snapshot_path(self._volatile))
            self.forget_snapshot(self._volatile)
            self._volatile = NO_OFFSET

    def remove_stray_snapshots(self, segment_bases: Collection[int]) -> None:
        """Delete the snapshots that are at no segment's base; the one above all bases stays."""
        newest = self._snapshots[-1] if self._snapshots else NO_OFFSET
        above_all = newest > max(segment_bases, default=NO_OFFSET)
        for offset in self.snapshots:
            if offset not in segment_bases and not (above_all and offset == newest):
                self._delete_snapshot(offset)

    def forget_snapshot(self, offset: int) -> Path | None:
        """Forget a snapshot and return its file, which the caller deletes; None without one."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(offset)
        return self._snapshot_path(offset)

    def relocate(self, directory: Path) -> None:
        """Note the new path of the folder."""
        self._directory = directory

    def _read_snapshot(self, offset: int) -> dict[int, ProducerEntry] | None:
        path = self._snapshot_path(offset)
        try:
            return producer_snapshot.decode(files.read_whole(path), offset)
        except FileNotFoundError:
            return None
        except CorruptSnapshot as error:
            _logger.warning("producer snapshot is unusable and goes file=%s error=%s", path, error)
            return None

    def _check_room(self) -> None:
        """Refuse a new producer if this partition, or all partitions together, have too many."""
        if len(self.producers) >= self._max_count:
            raise PolicyViolation(
                f"{self._topic_partition} remembers {len(self.producers)} producers, and "
                "producer.ids.max.count is no more; use a producer for longer, or set that higher",
                counted_as=PRODUCER_LIMIT,
            )
        if self._all.is_full:
            raise PolicyViolation(
                f"all partitions remember {self._all.value} producers, and "
                "producer.states.max.count is no more; use producers for longer, or set that "
                "higher",
                counted_as=ALL_PRODUCERS_LIMIT,
            )

    def _remember(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self.producers[producer_id] = ProducerEntry(epoch)
        self._all.add(1)
        return entry

    def _begin_transaction(self, producer_id: int, entry: ProducerEntry, offset: int) -> None:
        entry.transaction_first_offset = offset
        self._open[producer_id] = offset

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        silent_ms = now_ms - entry.last_timestamp
        return entry.transaction_first_offset < 0 and silent_ms >= self._expiration_ms

    def _snapshot_path(self, offset: int) -> Path:
        return self._directory / files.segment_file_name(offset, files.SNAPSHOT)

    def _delete_snapshot(self, offset: int) -> None:
        self._snapshots.remove(offset)
        files.unlink(self._snapshot_path(offset))
