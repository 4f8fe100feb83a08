"""The source of a replay: rows in order. It can go on from the position of any row."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan

COLUMNS: Final = ("key", "value", "partition", "offset", "timestampMs", "headers")
_ROWS: Final = 20_000
_FOOTER_LENGTH: Final = 8  # four bytes of length, and the magic


class TableFile(NamedTuple):
    """A Parquet file of a table, of this machine or in a store."""

    files: fs.FileSystem
    path: str
    size: int

    @property
    def name(self) -> str:
        """Return its name in its folder."""
        return self.path.rpartition("/")[2]

    def describe(self) -> str:
        """Return a hash of its end, which describes all of it."""
        with self.files.open_input_file(self.path) as opened:
            opened.seek(max(0, self.size - _FOOTER_LENGTH))
            length = int.from_bytes(opened.read(4), "little")
            opened.seek(max(0, self.size - _FOOTER_LENGTH - length))
            return f"file {hashlib.blake2b(opened.read(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A source partition, as splits in order, or a Parquet file.

    ``origin`` distinguishes it from others of its name; ``start`` is the first position to send.
    """

    name: str
    origin: str
    start: int = 0
    splits: tuple[Split, ...] = ()
    file: TableFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows, as columns of Python values; ``following`` is the position after them."""

    keys: list[bytes | None]
    values: list[bytes | None]
    partitions: list[int] | None
    timestamps: list[int] | None
    headers: list[list[dict[str, Any]] | None] | None
    following: int
    size: int


def count_bytes(part: Part) -> int:
    """Return the bytes of a part, about."""
    if part.file is not None:
        return part.file.size
    return sum(split.size for split in part.splits)


def read_part(part: Part, start: int) -> Iterator[Chunk]:
    """Yield the rows of a part from a position on: an offset, or the number of a row."""
    if part.file is not None:
        yield from _read_file(part.file, start)
        return
    for split in part.splits:
        if split.end_offset <= start:
            continue
        for batch in scan(split, COLUMNS):
            table = pa.Table.from_batches([batch])
            if table["offset"][0].as_py() < start:
                table = table.filter(pc.greater_equal(table["offset"], start))
            for at in range(0, table.num_rows, _ROWS):
                rows = table.slice(at, _ROWS)
                yield _chunk(rows, rows["offset"][-1].as_py() + 1)


def _read_file(file: TableFile, start: int) -> Iterator[Chunk]:
    with file.files.open_input_file(file.path) as opened, pq.ParquetFile(opened) as parquet:
        names = set(parquet.schema_arrow.names)
        if not {"key", "value"} <= names:
            raise BadOption(
                f"{file.path} has no columns key and value; it cannot be sent as records"
            )
        wanted = [name for name in (*COLUMNS, "timestamp") if name in names]
        position = 0
        for batch in parquet.iter_batches(batch_size=_ROWS, columns=wanted):
            following = position + batch.num_rows
            if following > start:
                rows = pa.Table.from_batches([batch]).slice(max(0, start - position))
                yield _chunk(rows, following)
            position = following


def _chunk(rows: pa.Table, following: int) -> Chunk:
    names = set(rows.column_names)
    headers = None
    if "headers" in names and _has_any(rows["headers"]):
        headers = rows["headers"].to_pylist()
    timestamps = None
    if "timestampMs" in names:
        timestamps = rows["timestampMs"].to_pylist()
    elif "timestamp" in names:
        timestamps = rows["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        timestamps = timestamps.to_pylist()
    return Chunk(
        keys=rows["key"].cast(pa.binary()).to_pylist(),
        values=rows["value"].cast(pa.binary()).to_pylist(),
        partitions=rows["partition"].to_pylist() if "partition" in names else None,
        timestamps=timestamps,
        headers=headers,
        following=following,
        size=rows["key"].nbytes + rows["value"].nbytes,
    )


def _has_any(headers: pa.ChunkedArray) -> bool:
    return bool(pc.sum(pc.list_value_length(headers)).as_py())
