from collections.abc import Iterable
from typing import Any, Final, Generic, Self, TypeVar

from typing_extensions import Buffer

_Row = TypeVar("_Row", bound=tuple[Any, ...])

def digest_of(keys: Iterable[bytes]) -> int: ...

class OffsetMap:
    def __init__(self, memory_bytes: int, secret: bytes, load_factor: float = 0.9) -> None: ...
    max_slots: int
    usable: int
    keys: int
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    memory_bytes: Final[int]

class Transactions(Generic[_Row]):
    def __init__(self, aborted: Iterable[_Row]) -> None: ...
    def take_kept(self) -> list[_Row]: ...

class MapBuilder:
    def __init__(
        self, offsets: OffsetMap, transactions: Transactions[Any], first_dirty: int
    ) -> None: ...
    first_dirty: int
    latest: int
    last_offset: int
    needed: int
    records: int
    batches: int
    status: int
    def read(self, chunk: Buffer, position: int = 0, *, is_opened: bool = False) -> int: ...

class RecordFilter:
    def __init__(
        self,
        offsets: OffsetMap,
        transactions: Transactions[Any],
        *,
        latest: int,
        now_ms: int,
        retention_ms: int,
        first_uncleanable: int,
        producers: Iterable[tuple[int, int, int]] = (),
    ) -> None: ...
    last_offset: int
    needed: int
    records_read: int
    batches_read: int
    records_written: int
    batches_written: int
    batches_rebuilt: int
    batches_emptied: int
    horizons_set: int
    horizons_reached: int
    next_horizon: int
    latest: int
    status: int
    size: int
    key_digest: Final[int]
    dropped: Final[list[tuple[int, int]]]
    def copy(self, chunk: Buffer, position: int = 0) -> int: ...
    def copy_opened(self, batch: Buffer, opened: Buffer) -> bytearray | None: ...
    def append(self, batch: Buffer) -> None: ...
    def written(self) -> memoryview: ...
    def clear(self) -> None: ...
    def shrink(self) -> None: ...
