"""The compiled core and its plain twin: bytes and numbers in, values out, nothing of the broker.

`plain_messages` and `plain_records` are the specification: they are what runs where there is no
compiler, and what the tests hold the compiled forms against. Import the names from here, and
numbers from `constants`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.protocol.core.plain_messages import (
        Grid,
        Table,
        fill_versioned,
        grid_of,
        read,
        read_head,
        read_in_steps,
        write,
        write_alike,
        write_response,
        write_response_in_steps,
    )
    from siltstone.protocol.core.plain_records import (
        COMPILED,
        SegmentScan,
        check_batch,
        crc32c,
        crc32c_by_tables,
        find_batch,
        find_end,
        list_bad_records,
        next_frame,
        pack_rows,
        read_journal,
        rewrite_records,
        take_plain,
        walk_records,
    )
else:
    try:
        import siltstone.protocol.core._messages as messages
        import siltstone.protocol.core._records as records
    except ModuleNotFoundError:  # they are not compiled, or are not wanted (`siltstone`)
        import siltstone.protocol.core.plain_messages as messages
        import siltstone.protocol.core.plain_records as records
    Grid = messages.Grid
    Table = messages.Table
    fill_versioned = messages.fill_versioned
    grid_of = messages.grid_of
    read = messages.read
    read_head = messages.read_head
    read_in_steps = messages.read_in_steps
    write = messages.write
    write_alike = messages.write_alike
    write_response = messages.write_response
    write_response_in_steps = messages.write_response_in_steps
    COMPILED = messages.COMPILED and records.COMPILED
    SegmentScan = records.SegmentScan
    check_batch = records.check_batch
    crc32c = records.crc32c
    crc32c_by_tables = records.crc32c_by_tables
    find_batch = records.find_batch
    find_end = records.find_end
    list_bad_records = records.list_bad_records
    next_frame = records.next_frame
    pack_rows = records.pack_rows
    read_journal = records.read_journal
    rewrite_records = records.rewrite_records
    take_plain = records.take_plain
    walk_records = records.walk_records

__all__ = [
    "COMPILED",
    "Grid",
    "SegmentScan",
    "Table",
    "check_batch",
    "crc32c",
    "crc32c_by_tables",
    "fill_versioned",
    "find_batch",
    "find_end",
    "grid_of",
    "list_bad_records",
    "next_frame",
    "pack_rows",
    "read",
    "read_head",
    "read_in_steps",
    "read_journal",
    "rewrite_records",
    "take_plain",
    "walk_records",
    "write",
    "write_alike",
    "write_response",
    "write_response_in_steps",
]
