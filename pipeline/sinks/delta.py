"""A Delta table, through the deltalake package: one log entry is one commit."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow import fs

from siltstone.pipeline.engine import Engine
from siltstone.pipeline.sinks.delta_spark import SparkTable, state_of
from siltstone.pipeline.sinks.lake import Lake
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.staging import Folder, StagedFile
from siltstone.pipeline.sinks.state import PROPERTY, TableState
from siltstone.pipeline.spark.session import has_delta

_KEEPING_ROWS: Final = {
    "OPTIMIZE",
    "VACUUM START",
    "VACUUM END",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
}
"""Operations of other writers after which a table has the rows that it had."""
_IS_NEW: Final = pa.field("siltstone_is_new", pa.bool_())
_MANY: Final = 20
_SMALL_BYTES: Final = 16 << 20
_RESTORE: Final = "RESTORE"
_REPLACE: Final = "REPLACE TABLE"
_CLONE: Final = "CLONE"


class DeltaSink(Lake):
    """The Delta table in a folder of this machine, or at a URI that delta-rs knows."""

    keeps_columns = False

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place if "://" in place else str(Path(place).absolute())

    @cached_property
    def folder(self) -> Folder:
        """Where tasks write."""
        if "://" not in self.place:
            return Folder.local(self.place)
        handler = DeltaStorageHandler(self.place)
        return Folder(files=fs.PyFileSystem(handler), path="", uri=self.place)

    def files(self) -> list[str]:
        """Return the files of the table."""
        return [] if self._table is None else sorted(self._table.file_uris())

    @property
    def has_deleted_rows(self) -> bool:
        """Whether some file has a deletion vector."""
        if self._table is None:
            return False
        try:
            return any(each.num_rows for each in self._table.deletion_vectors())
        except (DeltaError, OSError) as error:
            raise self.not_opened(error) from error

    def _write(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> None:
        fields, properties = Schema.from_arrow(schema), _properties(state)
        adds = [
            AddAction(file.name, file.size, {}, state.taken_at_ms, True, _counted(file))
            for file in files
        ]
        if self._table is None:
            create_table_with_add_actions(self.place, fields, adds, commit_properties=properties)
            return
        mode = "overwrite" if replaces else "append"
        self._table.create_write_transaction([*adds], mode, fields, commit_properties=properties)

    def _merge(self, engine: Engine, state: TableState, rewrite: Rewrite) -> Iterable[StagedFile]:
        table = self._table
        if table is None:
            raise FileNotFoundError(self.place)
        before = table.version()
        by_spark = self._by_spark(engine)
        if not rewrite.changes:
            is_made = False
        elif by_spark is not None:
            is_made = by_spark.merge(before, state, rewrite)
        else:
            same = "t.key = s.key and t.partition = s.partition"
            table.merge(
                _twice(rewrite),
                f"{same if rewrite.by_partition else 't.key = s.key'} and not s.{_IS_NEW.name}",
                source_alias="s",
                target_alias="t",
                commit_properties=_properties(state),
            ).when_matched_delete().when_not_matched_insert(
                {name: f"s.{name}" for name in rewrite.schema.names},
                f"s.{_IS_NEW.name} and s.value is not null",
            ).execute()
            is_made = table.version() > before
        if not is_made:  # a merge that changes no row leaves no commit
            self._write(state, rewrite.schema, [], replaces=False)
        return ()

    def _by_spark(self, engine: Engine) -> SparkTable | None:
        """Return the table in an engine's session with Delta's package; None without it."""
        session = engine.package_session
        if "://" in self.place or session is None or not has_delta(session):
            return None
        return SparkTable(session, self.place)

    def compact(self) -> None:
        """Put many small files together by an OPTIMIZE; if another writer is first, it is left."""
        table, state = self._table, self.state()
        if table is None or state is None or len(self.files()) < _MANY:
            return
        sizes = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
        if sum(size < _SMALL_BYTES for size in sizes) >= _MANY:
            with suppress(DeltaError):
                table.optimize.compact(commit_properties=_properties(state))
            self.look()

    def _version(self) -> str:
        return "" if self._table is None else str(self._table.version())

    def _columns(self) -> tuple[pa.Schema | None, Sequence[str]]:
        if self._table is None:
            return None, ()
        divisions = self._table.metadata().partition_columns
        return pa.schema(self._table.schema().to_arrow()), divisions

    def _commits(self) -> Iterator[tuple[str | None, bool]]:
        """Yield the commits, without those that a RESTORE has taken back."""
        if self._table is None:
            return
        newest = self._table.version()
        for limit in (1, None):  # nearly always the newest has the state
            for commit in self._table.history(limit):
                if commit["version"] > newest:
                    continue
                newest = commit["version"] - 1
                operation = commit["operation"]
                if operation == _RESTORE:
                    restored = commit.get("operationParameters", {}).get("version")
                    if restored is None:
                        return  # by a time: which version that was is not said
                    newest = int(restored)
                text = commit.get(PROPERTY) or state_of(commit)
                yield text, operation not in {*_KEEPING_ROWS, _RESTORE}
                if _REPLACE in operation or operation == _CLONE:  # Spark's has more words
                    return

    @cached_property
    def _table(self) -> DeltaTable | None:
        """The version that all methods use."""
        try:
            return DeltaTable(self.place)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self.not_opened(error) from error


def _twice(rewrite: Rewrite) -> pa.Table:
    """Return changed rows twice: once to delete the rows of their keys, once to be inserted.

    An update would leave each of several rows of a key, as an append of another writer makes. They
    are read before the merge: in it, delta-rs cannot be asked for a file in a store.
    """
    rows = pa.concat_tables([rewrite.folder.read(file) for file in rewrite.changes])
    keys = {"key", "partition"}
    gone = [
        rows[each.name] if each.name in keys else pa.nulls(len(rows), each.type)
        for each in rows.schema
    ]
    parts = [pa.table(gone, rows.schema), rows]
    flags = [pa.repeat(pa.scalar(is_new), len(rows)) for is_new in (False, True)]
    return pa.concat_tables(
        [part.append_column(_IS_NEW, each) for part, each in zip(parts, flags, strict=True)]
    )


def _properties(state: TableState) -> CommitProperties:
    return CommitProperties(
        custom_metadata={PROPERTY: state.to_json()},
        max_commit_retries=0,  # a retry would commit on a version that was not read
    )


def _counted(file: StagedFile) -> str:
    return f'{{"numRecords": {file.rows}}}'
