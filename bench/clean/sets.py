"""The logs that are cleaned: the content of each, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from siltstone.protocol.records import compression


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One partition. Keys have 16 bytes and are drawn uniformly, with a fixed seed.

    ``keys`` 0 gives every record a key of its own. ``value_bytes`` 0 are tombstones. Values look
    like small JSON documents. ``transaction_records`` is 0 but where Apache Kafka writes the log.
    """

    name: str
    records: int
    keys: int
    value_bytes: int
    batch_records: int = 130
    codec: int = compression.NONE
    transaction_records: int = 0

    def scaled(self, factor: float) -> DataSet:
        """Return the set with so many times the records and keys."""
        return replace(self, records=int(self.records * factor), keys=int(self.keys * factor))

    @property
    def folder(self) -> str:
        """Return a name that changes with everything that is in it."""
        codec = compression.NAMES[self.codec]
        return (
            f"{self.records}-{self.keys}-{self.value_bytes}-{self.batch_records}-{codec}"
            f"-{self.transaction_records}"
        )


_A = DataSet(name="A", records=8_000_000, keys=1_000_000, value_bytes=100)
_B = DataSet(name="B", records=1_440_000, keys=144_000, value_bytes=1024, batch_records=15)

SETS = (
    _A,
    replace(_A, name="A-lz4", codec=compression.LZ4),
    replace(_A, name="A-snappy", codec=compression.SNAPPY),
    replace(_A, name="A-zstd", codec=compression.ZSTD),
    _B,
    replace(_B, name="C", keys=6_710_000),
    DataSet(name="D", records=11_000_000, keys=0, value_bytes=20, batch_records=330),
    replace(_A, name="E", value_bytes=0, batch_records=600),
    replace(_A, name="F", records=2_000_000, keys=250_000, transaction_records=1000),
)
"""B keeps one record of ten, C nine of ten, D has more keys than two maps hold, E is tombstones
alone, and of F's transactions every tenth was aborted."""
