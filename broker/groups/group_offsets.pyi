from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.core import Grid

TOPIC_BYTES: Final[int]
OFFSET_BYTES: Final[int]
CHARACTER_BYTES: Final[int]
TRANSACTION_BYTES: Final[int]

class Run:
    topic: Final[str]
    metadata: Final[str]
    rows: Final[Grid]
    start: Final[int]
    stop: Final[int]

class NewOffsets:
    runs: Final[list[Run]]
    count: Final[int]
    max_bytes: Final[int]
    def __init__(self, now_ms: int, expiry_ms: int = ...) -> None: ...
    def add(self, topic: str, rows: Grid, place: int, metadata: str) -> None: ...
    def named(self) -> list[tuple[str, int]]: ...
    def journal_rows(
        self, group_id: str, ids: dict[str, bytes] = ...
    ) -> list[tuple[bytes, bytes]]: ...

class GroupOffsets:
    committed: Final[dict[str, dict[int, bytes]]]
    pending: Final[dict[int, dict[tuple[str, int], tuple[int, bytes] | None]]]
    more_bytes: Final[int]
    def __init__(self) -> None: ...
    def put(self, topic: str, partition: int, stored: bytes) -> bool: ...
    def put_all(self, new: NewOffsets, rows: Sequence[tuple[bytes, bytes]]) -> int: ...
    def remove(self, topic: str, partition: int) -> bool: ...
    def put_pending(self, producer_id: int, key: tuple[str, int], stored: bytes) -> None: ...
    def end(self, producer_id: int, is_commit: bool) -> int: ...
    def is_pending(self, topic: str, partition: int) -> bool: ...

def growth_of(
    offsets: dict[tuple[str, int], tuple[int, bytes] | None], key: tuple[str, int], stored: bytes
) -> int: ...
def excess_of(stored: bytes | None) -> int: ...
def list_committed(partitions: dict[int, bytes], indexes: Sequence[int]) -> Grid: ...
def judge_offsets(
    topics: Iterable[tuple[str, bytes, Sequence[Any]]],
    known: Mapping[Any, Topic],
    by_id: bool,
    settings: BrokerSettings,
    offsets: NewOffsets,
) -> tuple[list[tuple[str, bytes, Grid]], bool, bool]: ...
