from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from siltstone.broker.fetching.watching import Watch, WatchGroup
from siltstone.protocol.core import Grid
from siltstone.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from siltstone.protocol.names import TopicKey
from siltstone.storage.log.log import Log

NO_DIVERGENCE: Final[EpochEndOffset]

class FetchPlan:
    topics: list[tuple[TopicKey, Sequence[FetchPartition]]]
    count: int
    session: FetchSession | None
    epoch: int
    read: Sequence[SessionPartition]
    wants_session: bool
    by_id: bool
    isolation_level: int
    def __init__(
        self,
        topics: list[tuple[TopicKey, Sequence[FetchPartition]]],
        session: FetchSession | None = None,
        epoch: int = 0,
        read: Sequence[SessionPartition] = (),
        wants_session: bool = False,
        by_id: bool = False,
        isolation_level: int = 0,
    ) -> None: ...
    partitions: Final[list[tuple[TopicKey, FetchPartition]]]
    all_partitions: Final[list[tuple[TopicKey, FetchPartition]]]

def list_wanted(
    request: FetchRequest, by_id: bool
) -> list[tuple[TopicKey, Sequence[FetchPartition]]]: ...
def add_row(topics: list[tuple[TopicKey, Any]], key: TopicKey, row: Any) -> None: ...
def wanted_of(
    partitions: list[SessionPartition],
) -> list[tuple[TopicKey, Sequence[FetchPartition]]]: ...
def is_read_up(wanted: FetchPartition, fetched: Grid, place: int, isolation_level: int) -> bool: ...

class SessionPartition(Watch):
    turn: int
    high_watermark: Final[int]
    log_start_offset: Final[int]
    def __init__(
        self, group: WatchGroup, key: TopicKey, wanted: FetchPartition, turn: int
    ) -> None: ...
    def has_news(self, fetched: Grid, place: int) -> bool: ...

class FetchSession:
    session_id: Final[int]
    by_id: Final[bool]
    is_closed: Final[bool]
    created: Final[float]
    last_used: float
    epoch: int
    isolation_level: Final[int]
    partitions: Final[dict[tuple[TopicKey, int], SessionPartition]]
    group: Final[WatchGroup]
    def __init__(
        self, session_id: int, by_id: bool, created: float, isolation_level: int
    ) -> None: ...
    def add(self, topics: Sequence[FetchTopic]) -> None: ...
    def update(self, request: FetchRequest) -> None: ...
    def want(self, key: TopicKey, wanted: FetchPartition) -> SessionPartition: ...
    def changed(self) -> list[SessionPartition]: ...
    def conclude(
        self,
        read: Iterable[SessionPartition],
        fetched: list[tuple[TopicKey, Grid]],
        get_log: Callable[[TopicKey, int], Log | None],
        told: list[tuple[TopicKey, Sequence[PartitionData]]] | None,
        is_late: bool,
    ) -> None: ...
    def tell_again(self, partitions: Iterable[SessionPartition]) -> None: ...
    def settle(
        self,
        partition: SessionPartition,
        fetched: Grid,
        place: int,
        get_log: Callable[[TopicKey, int], Log | None],
    ) -> None: ...
    def is_at(self, epoch: int) -> bool: ...
    def close(self) -> None: ...
    def take_turn(self) -> int: ...
