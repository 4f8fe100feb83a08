"""ReadShareGroupStateSummary (87). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class PartitionData(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0

class ReadStateSummaryData(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class ReadShareGroupStateSummaryRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[ReadStateSummaryData], "[]struct"] = ()
REQUEST = Message(87, 0, 1, 0, ReadShareGroupStateSummaryRequest)

class PartitionResult(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    state_epoch: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    delivery_complete_count: Annotated[int, "int32 1+"] = -1

class ReadStateSummaryResult(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class ReadShareGroupStateSummaryResponse(NamedTuple):
    results: Annotated[Sequence[ReadStateSummaryResult], "[]struct"] = ()
RESPONSE = Message(87, 0, 1, 0, ReadShareGroupStateSummaryResponse)
