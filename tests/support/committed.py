"""Builds committed offsets: the arguments of `Offsets`, and records of the journal."""

from siltstone.broker.groups.group_offsets import NewOffsets
from siltstone.protocol.coordinator.group_records import NO_EXPIRY, VERSION, VERSION_WITH_EXPIRY
from siltstone.protocol.coordinator.headed import write_value
from siltstone.protocol.core import grid_of
from siltstone.protocol.messages.consumer_offsets import OFFSET_COMMIT_VALUE, OffsetCommitValue


def put_offset(committed: OffsetCommitValue) -> bytes:
    """Return the value of a committed offset."""
    has_expiry = committed.expire_timestamp != NO_EXPIRY
    return write_value(
        OFFSET_COMMIT_VALUE, VERSION_WITH_EXPIRY if has_expiry else VERSION, committed
    )


def new_offsets(*rows: tuple[str, int, OffsetCommitValue]) -> NewOffsets:
    """Return offsets of partitions that are committed together; all have the time of the first."""
    first = rows[0][2]
    offsets = NewOffsets(first.commit_timestamp, first.expire_timestamp)
    wanted = [(index, each.offset, each.leader_epoch, each.metadata) for _, index, each in rows]
    grid = grid_of(wanted, len(wanted[0]))
    for place, (topic, _, each) in enumerate(rows):
        offsets.add(topic, grid, place, each.metadata)
    return offsets
