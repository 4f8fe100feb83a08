"""Records of ``__share_group_state``: the delivery state of queues (KIP-932).

A snapshot (type 0) has the whole state of a queue, an update (type 1) what has changed since. A
snapshot without a value deletes the queue.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

from siltstone.protocol.coordinator import headed
from siltstone.protocol.messages import share_group_state as tables
from siltstone.protocol.messages.share_group_state import ShareSnapshotValue as Snapshot
from siltstone.protocol.messages.share_group_state import ShareUpdateValue as Update
from siltstone.protocol.parts import Buffer

__all__ = [
    "Snapshot",
    "StateKey",
    "Update",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]

_VERSION: Final = 0
_KEYS: Final = {each.key: each for each in (tables.SHARE_SNAPSHOT_KEY, tables.SHARE_UPDATE_KEY)}


class StateKey(NamedTuple):
    """The subject of a record."""

    is_update: bool
    group_id: str
    topic_id: UUID
    partition: int


def encode_key(key: StateKey) -> bytes:
    """Return the bytes of a key."""
    message = tables.SHARE_UPDATE_KEY if key.is_update else tables.SHARE_SNAPSHOT_KEY
    return headed.write_key(message, (key.group_id, key.topic_id.bytes, key.partition))


def decode_key(key: Buffer) -> StateKey | None:
    """Return the subject of a key; None for a key of another kind.

    Raises:
        ProtocolError: The key is cut short, or the group's name is too long.
    """
    message = _KEYS.get(headed.read_head(key))
    if message is None:
        return None
    group_id, topic_id, partition = headed.read_body(message, 0, key)
    is_update = message is tables.SHARE_UPDATE_KEY
    return StateKey(is_update, group_id, UUID(bytes=bytes(topic_id)), partition)


def encode_value(value: Snapshot | Update) -> bytes:
    """Return the bytes of a value."""
    is_update = isinstance(value, Update)
    message = tables.SHARE_UPDATE_VALUE if is_update else tables.SHARE_SNAPSHOT_VALUE
    return headed.write_value(message, _VERSION, value)


def decode_value(key: StateKey, value: Buffer) -> Any:
    """Return the `Snapshot` or the `Update` that a key's value is.

    Raises:
        ProtocolError: The value is cut short, or has an unknown version.
    """
    message = tables.SHARE_UPDATE_VALUE if key.is_update else tables.SHARE_SNAPSHOT_VALUE
    return headed.read_value(message, value)
