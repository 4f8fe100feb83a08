"""Batch headers as they lie in a `.log` file, read without any code of ours.

Layout of a batch header of magic 2: base offset 8, length 4, leader epoch 4, magic 1, CRC 4,
attributes 2, last offset delta 4, base timestamp 8, max timestamp 8, producer id 8,
producer epoch 2, base sequence 4, count 4.
"""

import struct
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Batch(NamedTuple):
    """The parts of one batch that the tests look at."""

    base_offset: int
    last_offset: int
    size: int
    codec: str
    leader_epoch: int
    max_timestamp: int
    producer_id: int
    base_sequence: int
    records: int
    is_control: bool


def segments(folder: Path) -> list[Path]:
    """Return the `.log` files of a partition folder in offset order."""
    return sorted(folder.glob("*.log"))


def batches(folder: Path) -> list[Batch]:
    """Return every batch of a partition folder in order; a torn tail is left out."""
    found = []
    for segment in segments(folder):
        data = segment.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            fields = HEADER.unpack_from(data, position)
            if position + 12 + fields[1] > len(data) or fields[3] != 2:
                break
            found.append(
                Batch(
                    base_offset=fields[0],
                    last_offset=fields[0] + fields[6],
                    size=12 + fields[1],
                    codec=CODECS[fields[5] & 7],
                    leader_epoch=fields[2],
                    max_timestamp=fields[8],
                    producer_id=fields[9],
                    base_sequence=fields[11],
                    records=fields[12],
                    is_control=bool(fields[5] & 0x20),
                )
            )
            position += 12 + fields[1]
    return found


def codecs(folder: Path) -> set[str]:
    """Return the codecs of a partition folder's batches.

    Batches that are too small to gain from compression are left out: clients do not compress them.
    """
    found = batches(folder)
    return {batch.codec for batch in found if batch.codec != "none" or batch.size > 400} or {"none"}
