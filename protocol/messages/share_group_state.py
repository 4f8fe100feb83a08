"""Records of ``__share_group_state``. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class ShareSnapshotKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partition: Annotated[int, "int32"] = 0
SHARE_SNAPSHOT_KEY = Message(0, 0, 0, -1, ShareSnapshotKey)

class StateBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    delivery_state: Annotated[int, "int8"] = 0
    delivery_count: Annotated[int, "int16"] = 0

class ShareSnapshotValue(NamedTuple):
    snapshot_epoch: Annotated[int, "int32"] = 0
    state_epoch: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    delivery_complete_count: Annotated[int, "int32 tag 0"] = -1
    create_timestamp: Annotated[int, "int64"] = 0
    write_timestamp: Annotated[int, "int64"] = 0
    state_batches: Annotated[Sequence[StateBatch], "[]struct"] = ()
SHARE_SNAPSHOT_VALUE = Message(0, 0, 0, 0, ShareSnapshotValue)

class ShareUpdateKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partition: Annotated[int, "int32"] = 0
SHARE_UPDATE_KEY = Message(1, 0, 0, -1, ShareUpdateKey)

class ShareUpdateStateBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    delivery_state: Annotated[int, "int8"] = 0
    delivery_count: Annotated[int, "int16"] = 0

class ShareUpdateValue(NamedTuple):
    snapshot_epoch: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    delivery_complete_count: Annotated[int, "int32 tag 0"] = -1
    state_batches: Annotated[Sequence[ShareUpdateStateBatch], "[]struct"] = ()
SHARE_UPDATE_VALUE = Message(1, 0, 0, 0, ShareUpdateValue)
