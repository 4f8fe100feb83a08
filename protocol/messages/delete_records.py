"""DeleteRecords (21). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DeleteRecordsPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    offset: Annotated[int, "int64"] = 0

class DeleteRecordsTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[DeleteRecordsPartition], "[]struct"] = ()

class DeleteRecordsRequest(NamedTuple):
    topics: Annotated[Sequence[DeleteRecordsTopic], "[]struct"] = ()
    timeout_ms: Annotated[int, "int32"] = 0
REQUEST = Message(21, 0, 2, 2, DeleteRecordsRequest)

class DeleteRecordsPartitionResult(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    low_watermark: Annotated[int, "int64"] = 0
    error_code: Annotated[int, "int16"] = 0

class DeleteRecordsTopicResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[DeleteRecordsPartitionResult], "[]struct"] = ()

class DeleteRecordsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[DeleteRecordsTopicResult], "[]struct"] = ()
RESPONSE = Message(21, 0, 2, 2, DeleteRecordsResponse)
