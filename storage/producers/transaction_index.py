"""The aborted transactions of a segment in marker order (Kafka: ``TransactionIndex``).

    position  bytes  field
           0      2  version, 0
           2      8  producer id
          10      8  first offset of the transaction's data
          18      8  last offset: that of the abort marker
          26      8  last stable offset once the marker was written

A segment has the entries whose markers it holds. It has no file until the first abort. Entries are
few, so a lookup reads them all.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.storage import files

ENTRY: Final = struct.Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedLookup(NamedTuple):
    """The aborted transactions for a fetch; ``is_complete`` if no later segment can add any."""

    transactions: list[AbortedTransaction]
    is_complete: bool


def encode(transaction: AbortedTransaction) -> bytes:
    """Return the bytes of an entry."""
    return ENTRY.pack(VERSION, *transaction)


def read(path: Path) -> list[AbortedTransaction]:
    """Return all entries of a file; a missing file is empty, a torn last entry does not count."""
    try:
        data = files.read_bytes(path)
    except FileNotFoundError:
        return []
    return parse(data)


def parse(data: bytes) -> list[AbortedTransaction]:
    """Return the entries in the bytes of a file; a torn last entry does not count."""
    whole = len(data) - len(data) % ENTRY.size
    return [AbortedTransaction(*entry[1:]) for entry in ENTRY.iter_unpack(data[:whole])]


def cut(data: bytes, end: int) -> bytes:
    """Return the entries of the transactions that end below the offset ``end``."""
    return b"".join(encode(each) for each in parse(data) if each.last_offset < end)


def append(path: Path, transactions: Iterable[AbortedTransaction]) -> None:
    """Append entries to a file, and create it if it is missing. Does not fsync."""
    fd = files.open_file(path, create=True)
    try:
        size = files.size_of(fd)
        files.write_all(fd, b"".join(map(encode, transactions)), size - size % ENTRY.size)
    finally:
        files.close(fd)


def rewrite(path: Path, transactions: list[AbortedTransaction]) -> None:
    """Replace the content of a file by these entries; without entries delete the file."""
    if not transactions:
        files.unlink(path)
        return
    files.close(files.create_file(path))
    append(path, transactions)


def find_aborted(
    transactions: Iterable[AbortedTransaction], fetch_offset: int, upper_offset: int
) -> AbortedLookup:
    """Return transactions that overlap ``fetch_offset``, inclusive, to ``upper_offset``, exclusive.

    An entry whose last stable offset is at or above ``upper_offset`` ends the search: transactions
    aborted later began at or above it.
    """
    found = []
    for transaction in transactions:
        if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_offset:
            found.append(transaction)
        if transaction.last_stable_offset >= upper_offset:
            return AbortedLookup(found, is_complete=True)
    return AbortedLookup(found, is_complete=False)


def find_damage(path: Path, base_offset: int) -> str | None:
    """Return the fault of a file, None for a sound or a missing one."""
    try:
        return damage_of(files.read_bytes(path), base_offset)
    except FileNotFoundError:
        return None


def damage_of(data: bytes, base_offset: int) -> str | None:
    """Return the fault in the bytes of a segment's file, or None."""
    if len(data) % ENTRY.size:
        return f"its length {len(data)} is no multiple of {ENTRY.size}"
    for number, entry in enumerate(ENTRY.iter_unpack(data)):
        version, _, first_offset, last_offset, stable_offset = entry
        if not 0 <= version <= VERSION:
            return f"entry {number} has version {version}"
        if not 0 <= first_offset <= last_offset or stable_offset < 0:
            return f"entry {number} has offsets {first_offset}, {last_offset}, {stable_offset}"
        if last_offset < base_offset:
            return f"entry {number} ends at {last_offset}, below the segment"
    return None
