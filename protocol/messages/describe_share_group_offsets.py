"""DescribeShareGroupOffsets (90). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class DescribeShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class DescribeShareGroupOffsetsRequestGroup(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[DescribeShareGroupOffsetsRequestTopic] | None, "[]struct null"] = ()

class DescribeShareGroupOffsetsRequest(NamedTuple):
    groups: Annotated[Sequence[DescribeShareGroupOffsetsRequestGroup], "[]struct"] = ()
REQUEST = Message(90, 0, 1, 0, DescribeShareGroupOffsetsRequest)

class DescribeShareGroupOffsetsResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    lag: Annotated[int, "int64 1+"] = -1
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class DescribeShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[DescribeShareGroupOffsetsResponsePartition], "[]struct"] = ()

class DescribeShareGroupOffsetsResponseGroup(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[DescribeShareGroupOffsetsResponseTopic], "[]struct"] = ()
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class DescribeShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    groups: Annotated[Sequence[DescribeShareGroupOffsetsResponseGroup], "[]struct"] = ()
RESPONSE = Message(90, 0, 1, 0, DescribeShareGroupOffsetsResponse)
