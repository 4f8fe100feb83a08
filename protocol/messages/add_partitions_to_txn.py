"""AddPartitionsToTxn (24). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class AddPartitionsToTxnTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class AddPartitionsToTxnTransaction(NamedTuple):
    transactional_id: Annotated[str, "string 4+"] = ""
    producer_id: Annotated[int, "int64 4+"] = 0
    producer_epoch: Annotated[int, "int16 4+"] = 0
    verify_only: Annotated[bool, "bool 4+"] = False
    topics: Annotated[Sequence[AddPartitionsToTxnTopic], "[]struct 4+"] = ()

class AddPartitionsToTxnRequest(NamedTuple):
    transactions: Annotated[Sequence[AddPartitionsToTxnTransaction], "[]struct 4+"] = ()
    v3_and_below_transactional_id: Annotated[str, "string 0-3"] = ""
    v3_and_below_producer_id: Annotated[int, "int64 0-3"] = 0
    v3_and_below_producer_epoch: Annotated[int, "int16 0-3"] = 0
    v3_and_below_topics: Annotated[Sequence[AddPartitionsToTxnTopic], "[]struct 0-3"] = ()
REQUEST = Message(24, 0, 5, 3, AddPartitionsToTxnRequest)

class AddPartitionsToTxnPartitionResult(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    partition_error_code: Annotated[int, "int16"] = 0

class AddPartitionsToTxnTopicResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    results_by_partition: Annotated[Sequence[AddPartitionsToTxnPartitionResult], "[]struct"] = ()

class AddPartitionsToTxnResult(NamedTuple):
    transactional_id: Annotated[str, "string 4+"] = ""
    topic_results: Annotated[Sequence[AddPartitionsToTxnTopicResult], "[]struct 4+"] = ()

class AddPartitionsToTxnResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16 4+"] = 0
    results_by_transaction: Annotated[Sequence[AddPartitionsToTxnResult], "[]struct 4+"] = ()
    results_by_topic_v3_and_below: Annotated[
        Sequence[AddPartitionsToTxnTopicResult], "[]struct 0-3"
    ] = ()
RESPONSE = Message(24, 0, 5, 3, AddPartitionsToTxnResponse)
