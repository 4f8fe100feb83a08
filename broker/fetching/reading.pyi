from collections.abc import Sequence
from typing import Any

from siltstone.broker.context import RequestContext
from siltstone.broker.fetching.session import FetchPlan
from siltstone.protocol.core import Grid
from siltstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from siltstone.protocol.names import TopicKey

class FetchRead:
    context: RequestContext[Any]
    services: Any
    request: FetchRequest
    plan: FetchPlan
    fetched: list[tuple[TopicKey, Grid]]
    absent: set[tuple[TopicKey, int]]
    max_bytes: int
    min_bytes: int
    finds_some: bool
    def __init__(
        self, context: RequestContext[Any], request: FetchRequest, plan: FetchPlan
    ) -> None: ...
    def read_some(
        self,
        topics: Sequence[tuple[TopicKey, Sequence[FetchPartition]]],
        before: Sequence[tuple[TopicKey, Grid]],
        found: int,
    ) -> tuple[int, bool]: ...
    def may_read(self, key: TopicKey) -> bool: ...
    def name_topics(
        self, session_id: int, told: Sequence[tuple[TopicKey, Sequence[PartitionData]]]
    ) -> FetchResponse: ...

def refused(index: int, code: int) -> PartitionData: ...
