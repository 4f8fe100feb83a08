"""OffsetDelete (47). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class OffsetDeleteRequestPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0

class OffsetDeleteRequestTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[OffsetDeleteRequestPartition], "[]struct"] = ()

class OffsetDeleteRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[OffsetDeleteRequestTopic], "[]struct"] = ()
REQUEST = Message(47, 0, 0, -1, OffsetDeleteRequest)

class OffsetDeleteResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0

class OffsetDeleteResponseTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[OffsetDeleteResponsePartition], "[]struct"] = ()

class OffsetDeleteResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[OffsetDeleteResponseTopic], "[]struct"] = ()
RESPONSE = Message(47, 0, 0, -1, OffsetDeleteResponse)
