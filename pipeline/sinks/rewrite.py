"""Takes changed keys out of the files of a table, for formats whose library merges no rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.sinks.staging import Folder, StagedFile, write_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The changed rows, a tombstone as a row without a value; it is sent to the executors.

    With ``by_partition`` the same key in another partition is another key.
    """

    folder: Folder
    schema: pa.Schema
    changes: Sequence[StagedFile]
    by_partition: bool

    def inserted(self) -> list[StagedFile]:
        """Write the changed rows without the tombstones."""
        tables = (self.folder.read(file) for file in self.changes)
        live = (table.filter(table["value"].is_valid()) for table in tables)
        return write_tables(self.folder, self.schema, live)

    def without_changed(self, read: Callable[[Sequence[str]], pa.Table]) -> list[StagedFile] | None:
        """Write a file again without the changed keys; return None if it holds none of them."""
        if not self.changes:
            return None
        columns = ["key", "partition"]
        changed = pa.concat_tables(
            [self.folder.read(each, columns) for each in self.changes]
        ).combine_chunks()
        hit = self._hits(read(columns), changed)
        if not pc.any(hit).as_py():
            return None
        table = read(self.schema.names).select(self.schema.names).cast(self.schema)
        return write_tables(self.folder, self.schema, [table.filter(pc.invert(hit))])

    def _hits(self, rows: pa.Table, changed: pa.Table) -> pa.ChunkedArray:
        """Tell for each row whether its key has changed."""
        keys = rows["key"].cast(changed["key"].type)
        if not self.by_partition:
            return pc.is_in(keys, value_set=changed["key"])
        hit = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
        for partition in pc.unique(rows["partition"]).to_pylist():
            there = changed.filter(pc.equal(changed["partition"], partition))["key"]
            if len(there):
                mine = pc.fill_null(pc.equal(rows["partition"], partition), fill_value=False)
                hit = pc.or_(hit, pc.and_(mine, pc.is_in(keys, value_set=there)))
        return hit
