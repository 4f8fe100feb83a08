"""Finds the last row of each key, from rows in the order of their offsets.

Rows come in record batches and leave as a table. In between only the last rows so far are kept, so
memory grows with the keys and not with the log. The later row wins, so the caller adds a
partition's rows in order, or names the columns that order them.
"""

import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

FOLD_BYTES = 48 << 20
"""How many bytes of rows are folded at a time."""

_ROW = "_row"


class LatestRows:
    """The last rows so far. Rows without a key are counted and dropped.

    The row with the greatest values in the columns ``by`` is the last one; without them it is the
    one that came last. ``keys`` are the columns that make a key, ``key`` among them.
    """

    def __init__(self, *, by: tuple[str, ...] = (), keys: tuple[str, ...] = ("key",)) -> None:
        self.without_key = 0
        self._by = by
        self._keys = keys
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._levels: list[pa.Table] = []  # the last rows of earlier tables, the oldest first

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; ``key`` and the names in ``by`` are columns of them."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= FOLD_BYTES:
            self._fold()

    def add_table(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        for batch in table.to_batches():
            self.add(batch)

    def finish(self) -> pa.Table | None:
        """Return the last rows in the order in which they came; None without a row."""
        self._fold()
        if not self._levels:
            return None
        while len(self._levels) > 1:
            self._merge()
        return self._levels.pop()

    def _fold(self) -> None:
        """Keep the last of each key in the pending rows, and merge levels of similar size."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        keys = table["key"]
        if keys.null_count:
            self.without_key += keys.null_count
            table = table.filter(keys.is_valid())
        self._levels.append(self._survivors(table))
        while len(self._levels) > 1 and self._levels[-1].num_rows * 2 > self._levels[-2].num_rows:
            self._merge()

    def _merge(self) -> None:
        later = self._levels.pop()
        earlier = self._levels.pop()
        self._levels.append(self._survivors(pa.concat_tables([earlier, later])))

    def _survivors(self, table: pa.Table) -> pa.Table:
        """Return the rows of a table that are the last of their key, in its order."""
        if self._by:
            order = [(name, "ascending") for name in self._by]
            table = table.take(pc.sort_indices(table, sort_keys=order))
        numbers = pa.array(range(table.num_rows), pa.int64())
        last = (
            table.select(self._keys)
            .append_column(_ROW, numbers)
            .group_by(self._keys, use_threads=False)
            .aggregate([(_ROW, "max")])
        )
        if last.num_rows == table.num_rows:
            return table
        chosen = last[f"{_ROW}_max"]
        return table.take(chosen.take(pc.sort_indices(chosen)))


def shares(table: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield a table's rows in at most ``count`` parts by a hash of their keys, with its number.

    The same key is in the same part on every machine.
    """
    if count == 1:
        yield 0, table
        return
    keys = table["key"].combine_chunks().dictionary_encode()
    places = pa.array([zlib.crc32(key) % count for key in keys.dictionary.to_pylist()], pa.int32())
    place = places.take(keys.indices)
    for number in range(count):
        part = table.filter(pc.equal(place, number))
        if part.num_rows:
            yield number, part
