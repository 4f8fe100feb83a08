"""EndTxn (26). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class EndTxnRequest(NamedTuple):
    transactional_id: Annotated[str, "string"] = ""
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int16"] = 0
    committed: Annotated[bool, "bool"] = False
REQUEST = Message(26, 0, 5, 3, EndTxnRequest)

class EndTxnResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    producer_id: Annotated[int, "int64 5+"] = -1
    producer_epoch: Annotated[int, "int16 5+"] = -1
RESPONSE = Message(26, 0, 5, 3, EndTxnResponse)
