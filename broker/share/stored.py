"""The stored state of one queue, as its records describe it, and the records of its changes.

No I/O, no clock. Kafka: ShareGroupOffset, and ShareCoordinatorShard's replay.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from siltstone.broker.share.state import NOT_SET, ShareState, StateBatch, combine
from siltstone.protocol.coordinator.share_state_records import Snapshot, Update
from siltstone.protocol.messages.share_group_state import ShareUpdateStateBatch

_BATCH: Final = Struct(">qqbh")
_LOOSE_BATCHES: Final = 64


class StoredState:
    """The state of a queue (no I/O).

    Batches are kept packed, since a queue may have thousands; those of the last updates follow the
    combined ones, and are combined with them when they are many. So an update costs by its own
    batches. ``offset`` is where the last snapshot is in the journal, ``updates`` counts those that
    were written since a snapshot was due.
    """

    __slots__ = (
        "_combined",
        "_is_combined",
        "_packed",
        "complete_count",
        "created_ms",
        "highest_leader_epoch",
        "leader_epoch",
        "offset",
        "partition",
        "snapshot_epoch",
        "start_offset",
        "state_epoch",
        "updates",
        "written_ms",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.offset = NOT_SET
        self.snapshot_epoch = 0
        self.state_epoch = 0
        self.leader_epoch = 0
        self.highest_leader_epoch = NOT_SET
        self.start_offset = NOT_SET
        self.complete_count = NOT_SET
        self.created_ms = 0
        self.written_ms = 0
        self.updates = 0
        self._packed = bytearray()
        self._combined = 0
        self._is_combined = True

    @property
    def size(self) -> int:
        """How many bytes the batches take."""
        return len(self._packed)

    def batches(self) -> tuple[StateBatch, ...]:
        """Return the batches, disjoint and in order."""
        unpacked = map(StateBatch._make, _BATCH.iter_unpack(self._packed))
        if self._is_combined:
            return tuple(unpacked)
        combined = combine(unpacked, (), self.start_offset)
        self._keep(combined)
        return combined

    def _keep(self, batches: Iterable[StateBatch]) -> None:
        self._packed = bytearray().join(_BATCH.pack(*each) for each in batches)
        self._combined = len(self._packed)
        self._is_combined = True

    def take_snapshot(self, snapshot: Snapshot, offset: int, updates_per_snapshot: int) -> None:
        """Apply a snapshot, which is at an offset of the journal."""
        self.offset = offset
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = max(self.state_epoch, snapshot.state_epoch)
        self.leader_epoch = snapshot.leader_epoch
        self.highest_leader_epoch = max(self.highest_leader_epoch, snapshot.leader_epoch)
        self.start_offset = snapshot.start_offset
        self.complete_count = snapshot.delivery_complete_count
        self.created_ms = snapshot.create_timestamp
        self.written_ms = snapshot.write_timestamp
        if self.updates >= updates_per_snapshot:
            self.updates = 0
        self._keep(snapshot.state_batches)

    def take_update(self, update: Update) -> None:
        """Apply an update."""
        self.updates += 1
        if self.highest_leader_epoch == NOT_SET:
            self.snapshot_epoch = update.snapshot_epoch
        if update.leader_epoch != NOT_SET:
            self.leader_epoch = update.leader_epoch
        self.highest_leader_epoch = max(self.highest_leader_epoch, update.leader_epoch)
        self.complete_count = update.delivery_complete_count
        if update.start_offset not in (NOT_SET, self.start_offset):
            self.start_offset = update.start_offset
            self._is_combined = False  # some batches may lie before the start
        for batch in update.state_batches:
            self._packed += _BATCH.pack(*batch)
            self._is_combined = False
        if len(self._packed) - self._combined > max(self._combined, _LOOSE_BATCHES * _BATCH.size):
            self.batches()

    def begin(self, state_epoch: int, start_offset: int, now_ms: int, *, is_new: bool) -> Snapshot:
        """Return the snapshot with which the queue begins at an offset."""
        return Snapshot(
            snapshot_epoch=0 if is_new else self.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=NOT_SET if start_offset == NOT_SET else 0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )

    def change(
        self, change: ShareState, leader_epoch: int, now_ms: int, updates_per_snapshot: int
    ) -> Snapshot | Update:
        """Return the record of a change: an update, or a snapshot if one is due."""
        start_offset = max(change.start_offset, self.start_offset)
        complete_count = change.delivery_complete_count
        if change.start_offset == self.start_offset:
            complete_count = max(complete_count, self.complete_count)
        elif change.start_offset < self.start_offset:
            complete_count = self.complete_count
        if self.updates < updates_per_snapshot:
            new = combine((), change.batches, start_offset)
            return Update(
                snapshot_epoch=self.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=complete_count,
                state_batches=tuple(ShareUpdateStateBatch(*each) for each in new),
            )
        return Snapshot(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=combine(self.batches(), change.batches, start_offset),
        )

    def repeat(self, now_ms: int) -> Snapshot:
        """Return a snapshot of the state as it is, for a queue that was quiet for long."""
        return Snapshot(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=now_ms,
            state_batches=self.batches(),
        )
