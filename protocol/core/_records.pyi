from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

def next_frame(buffer: Buffer, position: int, filled: int, limit: int) -> int: ...
def crc32c(buffer: Buffer, value: int = 0) -> int: ...
def crc32c_by_tables(buffer: Buffer) -> int: ...
def check_batch(
    buffer: Buffer, low: int, high: int, keys_required: bool
) -> tuple[int, int, int]: ...
def take_plain(
    buffer: Buffer, low: int, high: int, keys_required: bool, flags: int, codecs: int
) -> Any: ...  # numbers by name: a struct in C, a dict in Python
def walk_records(
    buffer: Buffer,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
) -> tuple[int, int, int]: ...
def list_bad_records(
    buffer: Buffer,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
    most: int,
) -> list[tuple[int, int, int]]: ...
def rewrite_records(buffer: Buffer, start: int, end: int, count: int, output: Buffer) -> int: ...
def pack_rows(
    rows: Sequence[tuple[bytes, bytes | None]],
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
) -> bytearray: ...
def find_batch(buffer: Buffer, start: int, end: int, offset: int) -> int: ...
def find_end(buffer: Buffer, start: int, end: int) -> int: ...

class SegmentScan:
    def __init__(
        self, base_offset: int, interval: int, entry_room: int = 1024, notable_room: int = 4096
    ) -> None: ...
    base_offset: int
    batches: int
    first_timestamp: int
    indexed: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    max_timestamp_offset: int
    needed: int
    position: int
    status: int
    def scan(self, chunk: Buffer) -> tuple[list[tuple[int, int, int, int]], list[int]]: ...

def read_journal(
    buffer: Buffer, position: int, most: int, has_offsets: bool
) -> tuple[list[tuple[Any, ...]], int, int]: ...
