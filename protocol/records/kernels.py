"""The byte loops, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol.records._kernels import (
        COMPILED,
        check_batch,
        continue_crc32c,
        crc32c,
        list_bad_records,
        rewrite_records,
        take_plain,
        walk_records,
    )
    from protocol.records._segment_kernels import find_batch, find_end, scan_batches

RECORDS = "protocol.records._kernels"
SEGMENTS = "protocol.records._segment_kernels"

if not TYPE_CHECKING:
    _records = choose(RECORDS)
    _segments = choose(SEGMENTS)
    COMPILED = _records.COMPILED and _segments.COMPILED
    check_batch = _records.check_batch
    continue_crc32c = _records.continue_crc32c
    crc32c = _records.crc32c
    list_bad_records = _records.list_bad_records
    rewrite_records = _records.rewrite_records
    take_plain = _records.take_plain
    walk_records = _records.walk_records
    find_batch = _segments.find_batch
    find_end = _segments.find_end
    scan_batches = _segments.scan_batches

__all__ = [
    "COMPILED",
    "RECORDS",
    "SEGMENTS",
    "check_batch",
    "continue_crc32c",
    "crc32c",
    "find_batch",
    "find_end",
    "list_bad_records",
    "rewrite_records",
    "scan_batches",
    "take_plain",
    "walk_records",
]
