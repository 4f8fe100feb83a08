"""Committed offsets as they stand in a journal, written one by one."""

from siltstone.protocol.coordinator.group_records import NO_EXPIRY, VERSION, VERSION_WITH_EXPIRY
from siltstone.protocol.coordinator.headed import write_value
from siltstone.protocol.messages.consumer_offsets import OFFSET_COMMIT_VALUE, OffsetCommitValue


def put_offset(committed: OffsetCommitValue) -> bytes:
    """Return the value of a committed offset."""
    has_expiry = committed.expire_timestamp != NO_EXPIRY
    return write_value(
        OFFSET_COMMIT_VALUE, VERSION_WITH_EXPIRY if has_expiry else VERSION, committed
    )
