"""ListTransactions (66). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ListTransactionsRequest(NamedTuple):
    state_filters: Annotated[Sequence[str], "[]string"] = ()
    producer_id_filters: Annotated[Sequence[int], "[]int64"] = ()
    duration_filter: Annotated[int, "int64 1+"] = -1
    transactional_id_pattern: Annotated[str | None, "string 2+ null"] = None
REQUEST = Message(66, 0, 2, 0, ListTransactionsRequest)

class TransactionState(NamedTuple):
    transactional_id: Annotated[str, "string"] = ""
    producer_id: Annotated[int, "int64"] = 0
    transaction_state: Annotated[str, "string"] = ""

class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    unknown_state_filters: Annotated[Sequence[str], "[]string"] = ()
    transaction_states: Annotated[Sequence[TransactionState], "[]struct"] = ()
RESPONSE = Message(66, 0, 2, 0, ListTransactionsResponse)
