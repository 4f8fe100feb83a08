"""WriteTxnMarkers (27). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class WritableTxnMarkerTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partition_indexes: Annotated[Sequence[int], "[]int32"] = ()

class WritableTxnMarker(NamedTuple):
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int16"] = 0
    transaction_result: Annotated[bool, "bool"] = False
    topics: Annotated[Sequence[WritableTxnMarkerTopic], "[]struct"] = ()
    coordinator_epoch: Annotated[int, "int32"] = 0
    transaction_version: Annotated[int, "int8 2+"] = 0

class WriteTxnMarkersRequest(NamedTuple):
    markers: Annotated[Sequence[WritableTxnMarker], "[]struct"] = ()
REQUEST = Message(27, 1, 2, 1, WriteTxnMarkersRequest)

class WritableTxnMarkerPartitionResult(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0

class WritableTxnMarkerTopicResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[WritableTxnMarkerPartitionResult], "[]struct"] = ()

class WritableTxnMarkerResult(NamedTuple):
    producer_id: Annotated[int, "int64"] = 0
    topics: Annotated[Sequence[WritableTxnMarkerTopicResult], "[]struct"] = ()

class WriteTxnMarkersResponse(NamedTuple):
    markers: Annotated[Sequence[WritableTxnMarkerResult], "[]struct"] = ()
RESPONSE = Message(27, 1, 2, 1, WriteTxnMarkersResponse)
