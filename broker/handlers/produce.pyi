from collections.abc import Coroutine, Sequence
from typing import Any

from siltstone.broker.context import Unwritten
from siltstone.broker.services import RequestContext
from siltstone.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData

AT_ONCE: int

def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Unwritten | Coroutine[Any, Any, ProduceResponse | None] | None: ...
def count_once(topics: Sequence[TopicProduceData], key: int) -> int: ...
