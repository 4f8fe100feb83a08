from collections.abc import Iterator, Sequence

from typing_extensions import Buffer

from siltstone.protocol.core.rows import BatchRow, Filled, Selection

class Rows(Sequence[BatchRow]):
    records: int
    size: int
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> BatchRow: ...  # type: ignore[override]
    def __iter__(self) -> Iterator[BatchRow]: ...
    def append(self, batch: BatchRow) -> None: ...

class Survey:
    def __init__(self, most: int = 8192) -> None: ...
    rows: Rows
    last_offset: int
    status: int
    flags: int
    position: int
    needed: int
    def scan(self, buffer: Buffer, start: int, origin: int, is_verified: bool) -> None: ...

def fill_columns(
    buffer: Buffer, rows: Rows, selection: Selection, layout: dict[str, int], arena: Buffer
) -> Filled: ...
