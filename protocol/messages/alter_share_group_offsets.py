"""AlterShareGroupOffsets (91). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class AlterShareGroupOffsetsRequestPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0

class AlterShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[AlterShareGroupOffsetsRequestPartition], "[]struct"] = ()

class AlterShareGroupOffsetsRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[AlterShareGroupOffsetsRequestTopic], "[]struct"] = ()
REQUEST = Message(91, 0, 0, 0, AlterShareGroupOffsetsRequest)

class AlterShareGroupOffsetsResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class AlterShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[AlterShareGroupOffsetsResponsePartition], "[]struct"] = ()

class AlterShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    responses: Annotated[Sequence[AlterShareGroupOffsetsResponseTopic], "[]struct"] = ()
RESPONSE = Message(91, 0, 0, 0, AlterShareGroupOffsetsResponse)
