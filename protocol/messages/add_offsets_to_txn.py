"""AddOffsetsToTxn (25). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: Annotated[str, "string"] = ""
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int16"] = 0
    group_id: Annotated[str, "string"] = ""
REQUEST = Message(25, 0, 4, 3, AddOffsetsToTxnRequest)

class AddOffsetsToTxnResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
RESPONSE = Message(25, 0, 4, 3, AddOffsetsToTxnResponse)
