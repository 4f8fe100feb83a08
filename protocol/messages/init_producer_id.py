"""InitProducerId (22). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class InitProducerIdRequest(NamedTuple):
    transactional_id: Annotated[str | None, "string null"] = ""
    transaction_timeout_ms: Annotated[int, "int32"] = 0
    producer_id: Annotated[int, "int64 3+"] = -1
    producer_epoch: Annotated[int, "int16 3+"] = -1
    enable2_pc: Annotated[bool, "bool 6+"] = False
    keep_prepared_txn: Annotated[bool, "bool 6+"] = False
REQUEST = Message(22, 0, 6, 2, InitProducerIdRequest)

class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    producer_id: Annotated[int, "int64"] = -1
    producer_epoch: Annotated[int, "int16"] = 0
    ongoing_txn_producer_id: Annotated[int, "int64 6+"] = -1
    ongoing_txn_producer_epoch: Annotated[int, "int16 6+"] = -1
RESPONSE = Message(22, 0, 6, 2, InitProducerIdResponse)
