"""``export``: writes a range of a topic as Parquet, Delta or Iceberg, with files for each split.

Rows are in the order of their offsets, in files and in row groups. The tasks write the files, and
one commit makes them a table: all of them or no file.
"""

import io
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from siltstone.pipeline.columns import TYPES, check_names
from siltstone.pipeline.command.progress import passed_over_text, seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption, CorruptLog
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.sinks.staging import (
    FILE_BYTES,
    Folder,
    ParquetFiles,
    StagedFile,
    retried,
    row_groups,
)
from siltstone.pipeline.sinks.state import TableState, described
from siltstone.pipeline.sinks.table import NewSink, open_new

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
JSON_TYPES: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSpec:
    """The wanted columns: columns of the topic, and columns from fields of JSON values."""

    target: str
    columns: tuple[str, ...] = COLUMNS
    json: tuple[tuple[str, str], ...] = ()
    mode: str = "error"
    file_bytes: int = FILE_BYTES

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        decoded = [(name, JSON_TYPES[kind]) for name, kind in self.json]
        return pa.schema([*((name, TYPES[name]) for name in self.columns), *decoded])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    """The result of an export."""

    rows: int
    files: int
    bytes_read: int
    bytes_written: int
    passed_over: int
    """Bad batches, with ``onCorrupt=skip``."""
    version: str
    seconds: float

    def line(self) -> str:
        """Return it in words."""
        return (
            f"export: {self.rows:,} rows in {self.files} files, {size(self.bytes_written)} from "
            f"{size(self.bytes_read)} of log, in {seconds_text(self.seconds)}; "
            f"version {self.version}{passed_over_text(self.passed_over)}"
        )


def export(engine: Engine, options: Mapping[str, str], spec: ExportSpec) -> ExportSummary:
    """Write the rows that the options ask for.

    Raises:
        PipelineError: Nothing was changed.
    """
    began = engine.clock.monotonic()
    check_names(spec.columns)
    sink = open_new(spec.target)
    read = committed(options)
    with sink.held():
        _check(sink, spec)
        with moment_of(read, engine.clock) as moment:
            splits = moment.plan()
            work = partial(export_split, sink.folder, spec)
            results = engine.run("export", splits, work, lambda split: split.size)
            moment.check()
            files = [file for each in results for file in each.files]
            state = _state(read, spec, moment.view.taken_at_ms)

            def attempt() -> str:
                sink.look()
                _check(sink, spec)
                return sink.commit(state, spec.schema, files, replaces=spec.mode == "overwrite")

            version = retried(attempt)
    return ExportSummary(
        rows=sum(file.rows for file in files),
        files=len(files),
        bytes_read=sum(split.size for split in splits),
        bytes_written=sum(file.size for file in files),
        passed_over=sum(each.passed_over for each in results),
        version=version,
        seconds=engine.clock.monotonic() - began,
    )


def _check(sink: NewSink, spec: ExportSpec) -> None:
    if sink.files() and spec.mode == "error":
        raise BadOption(
            f"{sink.place} has data already; take --mode append or --mode overwrite, or a new "
            "place for Parquet files in a store"
        )
    sink.check(spec.schema, keeps=spec.mode == "append", takes_over=spec.mode != "error")


class Exported(NamedTuple):
    """The files of a split, and how many bad batches are not in them."""

    files: list[StagedFile]
    passed_over: int


def export_split(folder: Folder, spec: ExportSpec, split: Split) -> Exported:
    """Write the rows of one split."""
    scanned = Scanned()
    columns = spec.columns if not spec.json else tuple(dict.fromkeys((*spec.columns, "value")))
    with ParquetFiles(folder, spec.schema, spec.file_bytes) as written:
        for table in row_groups(scan(split, columns, scanned=scanned)):
            written.write(_decoded(table, spec, split) if spec.json else table)
    return Exported(written.staged, scanned.corrupt)


def _decoded(table: pa.Table, spec: ExportSpec, split: Split) -> pa.Table:
    """Return a table with columns from its JSON values; in a tombstone they are null.

    Raises:
        CorruptLog: A value is not JSON, or not of the types that were named.
    """
    values = pc.fill_null(table["value"], b"{}").to_pylist()
    schema = pa.schema([(name, JSON_TYPES[kind]) for name, kind in spec.json])
    try:
        decoded = pj.read_json(
            io.BytesIO(b"\n".join(value.replace(b"\n", b" ") for value in values)),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise CorruptLog(
            f"values of {split.topic}-{split.partition} between offsets {split.start_offset} and "
            f"{split.end_offset} are not the JSON that --json describes: {error}"
        ) from error
    if decoded.num_rows != table.num_rows:
        raise CorruptLog(
            f"{table.num_rows} values of {split.topic}-{split.partition} between offsets "
            f"{split.start_offset} and {split.end_offset} are {decoded.num_rows} JSON objects"
        )
    columns = [table[name] for name in spec.columns]
    return pa.table([*columns, *(decoded[name] for name in schema.names)], schema=spec.schema)


def parse_json_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Return the columns that ``id bigint, name string`` describes.

    Raises:
        BadOption: A type does not exist.
    """
    columns = []
    for part in text.split(","):
        name, _, kind = part.strip().partition(" ")
        if not name or kind.strip().lower() not in JSON_TYPES:
            raise BadOption(
                f"--json wants columns such as 'id bigint, name string', not {part.strip()!r}; the "
                f"types are {', '.join(JSON_TYPES)}"
            )
        columns.append((name, kind.strip().lower()))
    return tuple(columns)


def _state(options: ReadOptions, spec: ExportSpec, taken_at_ms: int) -> TableState:
    return TableState(
        job=uuid.uuid4().hex[:12],
        topic=",".join(options.subscribe),
        topic_id="",
        taken_at_ms=taken_at_ms,
        key_scope="export",
        columns=described(spec.schema),
    )
