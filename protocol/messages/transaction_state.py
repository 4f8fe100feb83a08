"""Records of ``__transaction_state``. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class TransactionLogKey(NamedTuple):
    transactional_id: Annotated[str, "string"] = ""
TRANSACTION_LOG_KEY = Message(0, 0, 0, -1, TransactionLogKey)

class PartitionsSchema(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partition_ids: Annotated[Sequence[int], "[]int32"] = ()

class TransactionLogValue(NamedTuple):
    producer_id: Annotated[int, "int64"] = 0
    previous_producer_id: Annotated[int, "int64 1+ tag 0"] = -1
    next_producer_id: Annotated[int, "int64 1+ tag 1"] = -1
    producer_epoch: Annotated[int, "int16"] = 0
    next_producer_epoch: Annotated[int, "int16 1+ tag 3"] = -1
    transaction_timeout_ms: Annotated[int, "int32"] = 0
    transaction_status: Annotated[int, "int8"] = 0
    transaction_partitions: Annotated[Sequence[PartitionsSchema] | None, "[]struct null"] = ()
    transaction_last_update_timestamp_ms: Annotated[int, "int64"] = 0
    transaction_start_timestamp_ms: Annotated[int, "int64"] = 0
    client_transaction_version: Annotated[int, "int16 1+ tag 2"] = 0
TRANSACTION_LOG_VALUE = Message(0, 0, 1, 1, TransactionLogValue)
