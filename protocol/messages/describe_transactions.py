"""DescribeTransactions (65). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: Annotated[Sequence[str], "[]string"] = ()
REQUEST = Message(65, 0, 0, 0, DescribeTransactionsRequest)

class TopicData(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class TransactionState(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    transactional_id: Annotated[str, "string"] = ""
    transaction_state: Annotated[str, "string"] = ""
    transaction_timeout_ms: Annotated[int, "int32"] = 0
    transaction_start_time_ms: Annotated[int, "int64"] = 0
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int16"] = 0
    topics: Annotated[Sequence[TopicData], "[]struct"] = ()

class DescribeTransactionsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    transaction_states: Annotated[Sequence[TransactionState], "[]struct"] = ()
RESPONSE = Message(65, 0, 0, 0, DescribeTransactionsResponse)
