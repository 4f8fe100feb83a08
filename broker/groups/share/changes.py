"""The records of a transition of a share group."""

from typing import Any, ClassVar, Final

from siltstone.broker.groups import changes
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.protocol.coordinator.share_group_records import (
    RecordType,
    ShareGroupKey,
    encode_key,
    encode_value,
)
from siltstone.protocol.records.journal import Row

_SAID: Final = frozenset({RecordType.MEMBER_METADATA})


class Changes(changes.Changes[ShareGroup]):
    """The records of one transition of a share group."""

    __slots__ = ()

    SAID: ClassVar = _SAID

    @staticmethod
    def encode_row(key: ShareGroupKey, value: Any) -> Row:
        """Return a record as a key and a value for the log."""
        return encode_key(key), None if value is None else encode_value(key.type, value)


def tombstones(group: ShareGroup) -> list[Row]:
    """Return the records that delete a group."""
    ids = list(group.members)
    keys = [
        *((RecordType.CURRENT_ASSIGNMENT, each) for each in ids),
        *((RecordType.TARGET_MEMBER, each) for each in ids),
        (RecordType.TARGET_METADATA, ""),
        *((RecordType.MEMBER_METADATA, each) for each in ids),
        (RecordType.STATE_PARTITIONS, ""),
        (RecordType.METADATA, ""),
    ]
    return Changes.tombstones(group, keys)
