"""Idempotence: which batches are written, which were written before, and what survives."""

import random
from pathlib import Path

import pytest

from siltstone.protocol.core.constants import CONTROL, TRANSACTIONAL
from siltstone.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers.checks import Origin
from siltstone.storage.producers.entry import AppendedBatch
from siltstone.storage.producers.markers import Marker, MarkerKind
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.snapshot import CorruptSnapshot
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition
from tests.support.snapshots import take_snapshot

PID = 4000
HOUR = 3_600_000
TIMESTAMP = 1_700_000_000_000
LAST_SEQUENCE = 2**31 - 1
ABORTED = Marker(MarkerKind.ABORT, 0)
COMMITTED = Marker(MarkerKind.COMMIT, 0)


def header(
    sequence: int = 0,
    count: int = 1,
    *,
    producer_id: int = PID,
    epoch: int = 0,
    attributes: int = 0,
    timestamp: int = TIMESTAMP,
    base_offset: int = 0,
) -> BatchHeader:
    """Return the header of a producer's batch."""
    return BatchHeader(
        base_offset, 100, 0, 2, 0, attributes, count - 1, timestamp, timestamp,
        producer_id, epoch, sequence, count,
    )  # fmt: skip


class Partition:
    """Checks and updates one after the other, as a log does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.producers = self._load()
        self.end = 0

    def _load(self) -> ProducerStateManager:
        return ProducerStateManager(self.folder, TopicPartition("t", 0), expiration_ms=24 * HOUR)

    def write(self, batch: BatchHeader, origin: Origin = Origin.CLIENT) -> AppendedBatch | None:
        """Append a data batch; return what it repeats."""
        duplicate = self.producers.check(batch, origin)
        if duplicate is None:
            self.producers.update(batch, self.end)
            self.end += batch.last_offset_delta + 1
            self.producers.map_end_offset = self.end
        return duplicate

    def mark(self, marker: Marker, **fields: int) -> AbortedTransaction | None:
        """Append a marker."""
        batch = header(-1, attributes=TRANSACTIONAL | CONTROL, **fields)
        self.producers.check_marker(batch, marker)
        aborted: list[AbortedTransaction] = []
        self.producers.update_marker(batch, marker, self.end, aborted.append)
        self.end += 1
        self.producers.map_end_offset = self.end
        return aborted[0] if aborted else None

    def restart(self, now_ms: int = TIMESTAMP) -> int:
        """Load the newest snapshot into a new manager."""
        self.producers = self._load()
        self.producers.scan_snapshots()
        return self.producers.load(0, self.end, now_ms)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Return a partition without producers."""
    return Partition(tmp_path)


class TestSequences:
    def test_sequences_go_on(self, partition: Partition) -> None:
        """The next batch begins after the last one's last record."""
        assert partition.write(header(0, 3)) is None
        assert partition.write(header(3, 2)) is None
        with pytest.raises(OutOfOrderSequence, match="sequence 6 to t-0 where 5 follows"):
            partition.write(header(6))

    def test_each_of_the_last_five_is_a_duplicate(self, partition: Partition) -> None:
        """The answer is that of the first time: offsets and timestamp."""
        for n in range(7):
            partition.write(header(2 * n, 2, timestamp=TIMESTAMP + n))

        for n in range(2, 7):
            assert partition.write(header(2 * n, 2)) == (
                2 * n, 2 * n + 1, 2 * n, 2 * n + 1, TIMESTAMP + n,
            )  # fmt: skip
        with pytest.raises(OutOfOrderSequence):
            partition.write(header(2, 2))
        assert partition.end == 14

    @pytest.mark.parametrize(("sequence", "count"), [(4, 3), (5, 2), (4, 1), (3, 3)])
    def test_partial_overlap_is_no_duplicate(
        self, partition: Partition, sequence: int, count: int
    ) -> None:
        """Only exactly the same range of sequences is; the rest is out of order."""
        partition.write(header(0, 4))
        partition.write(header(4, 2))

        with pytest.raises(OutOfOrderSequence):
            partition.write(header(sequence, count))

    def test_unknown_producer_may_begin_anywhere(self, partition: Partition) -> None:
        """Its state may have expired or been deleted with its data."""
        assert partition.write(header(77)) is None
        assert partition.write(header(78)) is None

    def test_sequences_wrap(self, partition: Partition) -> None:
        """After 2147483647 comes 0, also within a batch."""
        partition.write(header(LAST_SEQUENCE - 1, 2))
        assert partition.write(header(0, 2)) is None
        partition.write(header(2, 2))

        other = header(LAST_SEQUENCE, 4, producer_id=1)
        partition.write(other)
        assert partition.write(header(3, 1, producer_id=1)) is None
        assert partition.write(other) is not None
        with pytest.raises(OutOfOrderSequence):
            partition.write(header(1, 1, producer_id=1))

    def test_a_check_changes_nothing(self, partition: Partition) -> None:
        """The write may still fail (KAFKA-6683)."""
        partition.write(header(0))
        before = producer_snapshot.encode(partition.producers.producers.items())

        partition.producers.check(header(1))
        partition.producers.check(header(0, epoch=5))
        partition.producers.check(header(0, producer_id=5))

        assert producer_snapshot.encode(partition.producers.producers.items()) == before

    def test_coordinator_has_no_sequences(self, partition: Partition) -> None:
        """Committed offsets come with any or none; epochs count."""
        for sequence in (-1, -1, 5, 0):
            partition.write(header(sequence, epoch=1), Origin.COORDINATOR)

        with pytest.raises(InvalidProducerEpoch):
            partition.write(header(-1, epoch=0), Origin.COORDINATOR)


class TestEpochs:
    def test_older_epoch_is_fenced(self, partition: Partition) -> None:
        """A zombie of the producer learns that it is one."""
        partition.write(header(0, epoch=3))

        with pytest.raises(InvalidProducerEpoch, match="epoch 2 of producer 4000 is older than 3"):
            partition.write(header(1, epoch=2))

    def test_new_epoch_begins_with_zero(self, partition: Partition) -> None:
        """And forgets the batches of the old one."""
        partition.write(header(0, 5))

        with pytest.raises(OutOfOrderSequence, match="with sequence 5 instead of 0"):
            partition.write(header(5, epoch=1))
        assert partition.write(header(0, 5, epoch=1)) is None
        assert partition.write(header(0, 5, epoch=1)) is not None

    def test_replicated_data_is_taken_as_it_is(self, partition: Partition) -> None:
        """A batch that is in the log was checked when it was written."""
        partition.write(header(0, 5, epoch=3))

        assert partition.write(header(40, epoch=2), Origin.REPLICATION) is None
        assert partition.producers.producers[PID].epoch == 2


class TestTransactions:
    def test_first_batch_opens_and_marker_closes(self, partition: Partition) -> None:
        """The last stable offset waits for the earliest open transaction."""
        partition.write(header(0, 2))
        partition.write(header(2, attributes=TRANSACTIONAL))
        partition.write(header(3, attributes=TRANSACTIONAL))
        partition.write(header(0, producer_id=1, attributes=TRANSACTIONAL))
        assert partition.producers.first_unstable_offset == 2

        assert partition.mark(COMMITTED) is None
        assert partition.producers.first_unstable_offset == 4
        assert partition.mark(COMMITTED, producer_id=1) is None
        assert partition.producers.first_unstable_offset is None

    def test_abort_names_data_marker_and_stable_offset(self, partition: Partition) -> None:
        """The stable offset is the next open transaction of another producer, else the end."""
        partition.write(header(0, attributes=TRANSACTIONAL))
        partition.write(header(0, producer_id=1, attributes=TRANSACTIONAL))

        assert partition.mark(ABORTED) == (PID, 0, 2, 1)
        assert partition.mark(ABORTED, producer_id=1) == (1, 1, 3, 4)

    def test_empty_transaction_changes_epochs_only(self, partition: Partition) -> None:
        """A marker without data is no aborted transaction; its epoch counts."""
        assert partition.mark(Marker(MarkerKind.ABORT, 5), epoch=7) is None

        entry = partition.producers.producers[PID]
        assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp) == (7, 5, TIMESTAMP)
        with pytest.raises(InvalidProducerEpoch):
            partition.write(header(0, epoch=6))

    def test_marker_of_a_new_epoch_resets_sequences(self, partition: Partition) -> None:
        """The coordinator fences a producer by a marker with a higher epoch."""
        partition.write(header(0, 3, attributes=TRANSACTIONAL))

        partition.mark(ABORTED, epoch=1)

        assert partition.write(header(0, epoch=1, attributes=TRANSACTIONAL)) is None

    def test_batch_outside_of_its_transaction(self, partition: Partition) -> None:
        """A producer that has a transaction open writes inside of it."""
        partition.write(header(0, attributes=TRANSACTIONAL))

        with pytest.raises(InvalidTxnState, match="outside of it"):
            partition.write(header(1))

    def test_old_coordinator_is_fenced(self, partition: Partition) -> None:
        """And so is an old epoch of the producer in a marker."""
        partition.mark(Marker(MarkerKind.COMMIT, 5), epoch=1)

        with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 4"):
            partition.mark(Marker(MarkerKind.COMMIT, 4), epoch=1)
        with pytest.raises(InvalidProducerEpoch):
            partition.mark(Marker(MarkerKind.COMMIT, 5), epoch=0)

    def test_replay_reads_markers(self, partition: Partition) -> None:
        """As recovery meets them; a marker that the cleaner emptied says nothing."""
        producers = partition.producers
        fields = {"producer_id": PID, "producer_epoch": 0}
        producers.replay(header(0, attributes=TRANSACTIONAL, base_offset=10), b"")
        marker = build_marker(11, TIMESTAMP, ABORT, 3, **fields)
        emptied = header(-1, attributes=TRANSACTIONAL | CONTROL, base_offset=12)

        assert producers.replay(BatchHeader.read(marker), marker) == (PID, 10, 11, 12)
        empty = build_marker(12, TIMESTAMP, ABORT, 3, **fields)[:61]
        empty[8:12] = (49).to_bytes(4, "big")
        empty[57:61] = bytes(4)
        assert producers.replay(emptied, empty) is None
        assert producers.map_end_offset == 13


class TestExpiry:
    def test_silent_producers_go(self, partition: Partition) -> None:
        """By the timestamps of their batches, strictly from the limit on."""
        partition.write(header(0))

        assert partition.producers.remove_expired(TIMESTAMP + 24 * HOUR - 1) == 0
        assert partition.producers.remove_expired(TIMESTAMP + 24 * HOUR) == 1
        assert partition.write(header(55)) is None

    def test_open_transaction_keeps_its_producer(self, partition: Partition) -> None:
        """Its marker is still to come."""
        partition.write(header(0, attributes=TRANSACTIONAL))

        assert partition.producers.remove_expired(TIMESTAMP + 99 * HOUR) == 0


class TestSnapshots:
    def test_empty_snapshot_is_kafkas(self) -> None:
        """Every roll writes one, producers or not."""
        assert producer_snapshot.encode([]).hex() == "000148674bc700000000"

    def test_snapshot_of_one_producer_is_kafkas(self) -> None:
        """Byte for byte (ProducerStateManager.writeSnapshot)."""
        entry = ProducerEntry(0)
        entry.add(AppendedBatch(5, 9, 105, 109, TIMESTAMP))

        assert producer_snapshot.encode([(PID, entry)]).hex() == (
            "0001" "32990cec" "00000001"
            "0000000000000fa0" "0000" "00000009" "000000000000006d" "00000004"
            "0000018bcfe56800" "ffffffff" "ffffffffffffffff"
        )  # fmt: skip

    def test_last_batch_survives_a_restart(self, partition: Partition) -> None:
        """A retry of it is known, of an older one not; sequences go on."""
        for n in range(3):
            partition.write(header(2 * n, 2))
        take_snapshot(partition.producers)

        assert partition.restart() == 6

        assert partition.write(header(4, 2)) == (4, 5, 4, 5, TIMESTAMP)
        with pytest.raises(OutOfOrderSequence):
            partition.write(header(2, 2))
        assert partition.write(header(6)) is None

    def test_everything_else_survives_too(self, partition: Partition) -> None:
        """Epochs, open transactions in order, producers without a batch, wrapped sequences."""
        partition.write(header(0, producer_id=9, epoch=4, attributes=TRANSACTIONAL))
        partition.write(header(LAST_SEQUENCE, 3, producer_id=3, attributes=TRANSACTIONAL))
        partition.mark(Marker(MarkerKind.COMMIT, 6), producer_id=5, epoch=2)
        partition.write(header(-1, producer_id=6), Origin.COORDINATOR)
        before = producer_snapshot.encode(partition.producers.producers.items())
        take_snapshot(partition.producers)

        partition.restart()

        producers = partition.producers
        assert producer_snapshot.encode(producers.producers.items()) == before
        assert producers.first_unstable_offset == 0
        assert producers.producers[5].batches == []
        assert partition.write(header(1, producer_id=9, epoch=4, attributes=TRANSACTIONAL)) is None
        assert partition.write(header(2, producer_id=3, attributes=TRANSACTIONAL)) is None
        partition.mark(ABORTED, producer_id=9, epoch=4)
        assert producers.first_unstable_offset == 1

    def test_expired_producers_are_not_loaded(self, partition: Partition) -> None:
        """A producer that was silent for a day before the restart is unknown after it."""
        partition.write(header(0))
        take_snapshot(partition.producers)

        partition.restart(TIMESTAMP + 24 * HOUR)

        assert partition.producers.producers == {}

    def test_no_second_snapshot_at_an_offset(self, partition: Partition) -> None:
        """Nothing has been written since."""
        partition.write(header(0))
        assert partition.producers.capture() is not None
        assert partition.producers.capture() is None
        assert partition.producers.capture(1) is None
        assert partition.producers.capture(2) is not None

    @pytest.mark.parametrize("damage", ["version", "crc", "short", "long", "empty", "count"])
    def test_damaged_snapshot_gives_way_to_an_older_one(
        self, partition: Partition, tmp_path: Path, damage: str
    ) -> None:
        """It is deleted, and the batches after the older one are to be replayed."""
        partition.write(header(0))
        take_snapshot(partition.producers)
        partition.write(header(1))
        take_snapshot(partition.producers)
        path = tmp_path / "00000000000000000002.snapshot"
        data = path.read_bytes()
        path.write_bytes(
            {
                "version": b"\0\2" + data[2:],
                "crc": data[:-1] + b"\0",
                "short": data[:-1],
                "long": data + b"\0",
                "empty": b"",
                "count": data[:6] + b"\0\0\0\2" + data[10:],
            }[damage]
        )

        assert partition.restart() == 1

        assert not path.exists()
        assert partition.producers.producers[PID].next_sequence == 1

    def test_every_flipped_byte_is_noticed(self) -> None:
        """The CRC covers all but itself and the version, which has one value."""
        entry = ProducerEntry(0)
        entry.add(AppendedBatch(5, 9, 105, 109, TIMESTAMP))
        data = producer_snapshot.encode([(PID, entry)])

        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1 << random.randrange(8)
            with pytest.raises(CorruptSnapshot):
                producer_snapshot.decode(damaged)

    def test_snapshots_out_of_range_go(self, partition: Partition, tmp_path: Path) -> None:
        """Above the end of the log, or not above its start."""
        for offset in (1, 2, 3, 4):
            take_snapshot(partition.producers, offset)
        partition.producers.load(2, 3, TIMESTAMP)

        assert partition.producers.snapshots == (3,)
        assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000003.snapshot"]

    def test_stray_snapshots_go(self, partition: Partition) -> None:
        """A snapshot at no segment's base goes, but for one above all of them."""
        for offset in (10, 15, 20, 25):
            take_snapshot(partition.producers, offset)

        partition.producers.remove_stray_snapshots({10, 20})
        assert list(partition.producers.snapshots) == [10, 20, 25]
        partition.producers.remove_stray_snapshots({10, 30})
        assert list(partition.producers.snapshots) == [10]

    def test_snapshots_of_deleted_segments(self, partition: Partition, tmp_path: Path) -> None:
        """They are gone for us; deleting the segment's files deletes them too."""
        for offset in (10, 20, 30):
            take_snapshot(partition.producers, offset)

        path = partition.producers.forget_snapshot(10)
        assert path == tmp_path / "00000000000000000010.snapshot"
        assert path.exists()
        assert partition.producers.forget_snapshot(11) is None
        assert partition.producers.snapshots == (20, 30)

    def test_truncation_forgets_all(self, partition: Partition) -> None:
        """The log begins again, at whatever offset."""
        partition.write(header(0, attributes=TRANSACTIONAL))
        take_snapshot(partition.producers)

        partition.producers.truncate_fully(77)

        assert partition.producers.snapshots == ()
        assert partition.producers.producers == {}
        assert partition.producers.first_unstable_offset is None
        assert partition.producers.map_end_offset == 77
