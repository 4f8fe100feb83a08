from collections.abc import Callable, Mapping
from typing import Any, Protocol

from siltstone.broker.api import Api
from siltstone.broker.context import Connection, Unwritten
from siltstone.broker.net.dispatch import RareRequests
from siltstone.broker.process.request_stats import ApiStats, RequestStats
from siltstone.protocol.core import Table
from siltstone.protocol.parts import Answer, LateAnswer

class TurnTimer(Protocol):
    def begin(self) -> object: ...
    def end(self, connection: Any, began: Any) -> None: ...

class Route:
    api: Api
    stats: ApiStats
    lowest: int
    highest: int
    max_elements: int
    handler: Callable[..., Any]
    requests: list[Table | None]
    responses: list[Table | None]
    has_tags: list[bool]
    def __init__(self, api: Api, stats: ApiStats) -> None: ...
    def load(self) -> None: ...
    def load_tables(self, version: int) -> Table: ...

class Gate:
    stats: RequestStats
    timer: TurnTimer | None
    def __init__(
        self,
        routes: Mapping[int, Route],
        served: list[tuple[int, int, int] | None],
        stats: RequestStats,
        rare: RareRequests,
    ) -> None: ...
    def dispatch(
        self,
        connection: Connection,
        buffer: memoryview,
        start: int,
        end: int,
        may_wait: bool = False,
    ) -> Answer | Unwritten | LateAnswer: ...

def encode(unwritten: Unwritten) -> Answer: ...
