"""The compiled core: bytes and numbers in, values out, nothing of the broker.

`tests/reference` defines each step in plain Python; the tests compare the core with it. Import the
names from here, and numbers from `constants`; `compaction` and `columns` are parts for the cleaner
and for readers of topics.
"""

try:
    from siltstone.protocol.core._messages import (
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
    from siltstone.protocol.core._records import (
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
except ModuleNotFoundError as error:
    if error.name not in {f"{__name__}._messages", f"{__name__}._records"}:
        raise
    import sys

    raise ImportError(
        f"siltstone is not compiled for this Python ({sys.executable}, {sys.version.split()[0]}): "
        "install it again with this Python, in a clone by make run",
        name="siltstone",
    ) from None

__all__ = [
    "Grid", "SegmentScan", "Table", "check_batch", "crc32c", "crc32c_by_tables", "fill_versioned",
    "find_batch", "find_end", "grid_of", "list_bad_records", "next_frame", "pack_rows", "read",
    "read_head", "read_in_steps", "read_journal", "rewrite_records", "take_plain", "walk_records",
    "write", "write_alike", "write_response", "write_response_in_steps",
]  # fmt: skip
