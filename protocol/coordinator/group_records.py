"""Records of `__consumer_offsets` that keep committed offsets and classic groups.

| type | key | value |
| --- | --- | --- |
| 0, 1 | `OffsetCommitKey` | `OffsetCommitValue` |
| 2 | `GroupMetadataKey` | `GroupMetadataValue` |

Keys are written with the types 1 and 2, and values with version 3, which every Kafka since 2.1
reads. An offset with an expiry time of its own gets version 1. An offset gets version 4, which
every Kafka since 4.1 reads, if the topic's name alone does not tell the topic from a deleted one. A
committed offset is also kept in memory as the bytes of its value, since a million offsets must be
cheap.
"""

from typing import Final

from siltstone.protocol.coordinator import headed
from siltstone.protocol.messages.consumer_offsets import (
    GROUP_METADATA_KEY,
    GROUP_METADATA_VALUE,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VALUE,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

VERSION: Final = 3
VERSION_WITH_EXPIRY: Final = 1
VERSION_WITH_TOPIC_ID: Final = 4
NO_EXPIRY: Final = -1

_LEGACY_OFFSET: Final = 0
_NONE: Final = -1
_KEYS: Final = {
    _LEGACY_OFFSET: OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_KEY.key: OFFSET_COMMIT_KEY,
    GROUP_METADATA_KEY.key: GROUP_METADATA_KEY,
}


def read_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """Return the subject of a record; None for a type that is not of this module.

    Raises:
        ProtocolError: The bytes are no key of that type.
    """
    message = _KEYS.get(headed.read_head(key))
    if message is None:
        return None
    read: OffsetCommitKey | GroupMetadataKey = headed.read_body(message, 0, key)
    return read


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return headed.write_key(OFFSET_COMMIT_KEY, (group_id, topic, partition))


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group."""
    return headed.write_key(GROUP_METADATA_KEY, (group_id,))


def read_offset(value: bytes) -> OffsetCommitValue:
    """Read the value of a committed offset.

    Raises:
        ProtocolError: The bytes are no such value, or one of a newer version.
    """
    read: OffsetCommitValue = headed.read_value(OFFSET_COMMIT_VALUE, value)
    return read


def put_group(group: GroupMetadataValue) -> bytes:
    """Return the value of a classic group.

    Raises:
        OverflowError: A name is longer than a record has room for.
    """
    return headed.write_value(GROUP_METADATA_VALUE, VERSION, group)


def read_group(value: bytes) -> GroupMetadataValue:
    """Read the value of a classic group; version 0 has one time-out for session and rebalance.

    Raises:
        ProtocolError: The bytes are no such value, or one of a newer version.
    """
    group: GroupMetadataValue = headed.read_value(GROUP_METADATA_VALUE, value)
    headed.check_epoch(group.generation)
    members = []
    for each in group.members:
        is_old = each.rebalance_timeout == _NONE
        members.append(each._replace(rebalance_timeout=each.session_timeout) if is_old else each)
    return group._replace(members=members)
