"""The compiled core and its plain twin: bytes and numbers in, values out, nothing of the broker.

`plain_messages` and `plain_records` are the specification: they are what runs where there is no
compiler, and what the tests hold the compiled forms against. Import the names from here, and
numbers from `constants`.
"""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.protocol.core.plain_messages import (
        Table,
        read,
        read_head,
        read_in_steps,
        read_versioned,
        write,
        write_pairs,
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
    _messages = choose(
        "siltstone.protocol.core._messages", plain="siltstone.protocol.core.plain_messages"
    )
    Table = _messages.Table
    read = _messages.read
    read_head = _messages.read_head
    read_in_steps = _messages.read_in_steps
    read_versioned = _messages.read_versioned
    write = _messages.write
    write_pairs = _messages.write_pairs
    write_response = _messages.write_response
    write_response_in_steps = _messages.write_response_in_steps
    _records = choose(
        "siltstone.protocol.core._records", plain="siltstone.protocol.core.plain_records"
    )
    COMPILED = _messages.COMPILED and _records.COMPILED
    SegmentScan = _records.SegmentScan
    check_batch = _records.check_batch
    crc32c = _records.crc32c
    crc32c_by_tables = _records.crc32c_by_tables
    find_batch = _records.find_batch
    find_end = _records.find_end
    list_bad_records = _records.list_bad_records
    next_frame = _records.next_frame
    pack_rows = _records.pack_rows
    read_journal = _records.read_journal
    rewrite_records = _records.rewrite_records
    take_plain = _records.take_plain
    walk_records = _records.walk_records

__all__ = [
    "COMPILED",
    "SegmentScan",
    "Table",
    "check_batch",
    "crc32c",
    "crc32c_by_tables",
    "find_batch",
    "find_end",
    "list_bad_records",
    "next_frame",
    "pack_rows",
    "read",
    "read_head",
    "read_in_steps",
    "read_journal",
    "read_versioned",
    "rewrite_records",
    "take_plain",
    "walk_records",
    "write",
    "write_pairs",
    "write_response",
    "write_response_in_steps",
]
