"""InitializeShareGroupState (83). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class PartitionData(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    state_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0

class InitializeStateData(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class InitializeShareGroupStateRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[InitializeStateData], "[]struct"] = ()
REQUEST = Message(83, 0, 0, 0, InitializeShareGroupStateRequest)

class PartitionResult(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class InitializeStateResult(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class InitializeShareGroupStateResponse(NamedTuple):
    results: Annotated[Sequence[InitializeStateResult], "[]struct"] = ()
RESPONSE = Message(83, 0, 0, 0, InitializeShareGroupStateResponse)
