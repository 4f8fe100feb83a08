"""``export``: writes a range of a topic as Parquet, Delta or Iceberg, with files for each split.

Rows are in the order of their offsets, in files and in row groups. The tasks write the files, and
one commit makes them a table: all of them or no file.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from siltstone.pipeline.columns import arrow_schema, check_names
from siltstone.pipeline.command.progress import passed_over_text, seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.jobs.table_tasks import TableTasks, size_of
from siltstone.pipeline.sinks.staging import retried
from siltstone.pipeline.sinks.state import TableState, described
from siltstone.pipeline.sinks.table import NewSink, open_new

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSpec:
    """The table, the wanted columns of the topic, and what becomes of rows that the table has."""

    target: str
    columns: tuple[str, ...] = COLUMNS
    mode: str = "error"

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return arrow_schema(self.columns)


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
            parts = [(split,) for split in moment.plan()]
            work = TableTasks(folder=sink.folder, schema=spec.schema).all_rows
            results = engine.run("export", parts, work, size_of)
            moment.check()
            files = [file for each in results for file in each.files]
            state = TableState(
                job=uuid.uuid4().hex[:12],
                topic=",".join(read.subscribe),
                topic_id="",
                taken_at_ms=moment.view.taken_at_ms,
                key_scope="export",
                columns=described(spec.schema),
            )

            def attempt() -> str:
                sink.look()
                _check(sink, spec)
                return sink.commit(state, spec.schema, files, replaces=spec.mode == "overwrite")

            version = retried(attempt)
    return ExportSummary(
        rows=sum(file.rows for file in files),
        files=len(files),
        bytes_read=sum(map(size_of, parts)),
        bytes_written=sum(file.size for file in files),
        passed_over=sum(each.passed_over for each in results),
        version=version,
        seconds=engine.clock.monotonic() - began,
    )


def _check(sink: NewSink, spec: ExportSpec) -> None:
    sink.check(spec.schema, keeps=spec.mode == "append")
    if sink.files() and spec.mode == "error":
        raise BadOption(
            f"{sink.place} has data already; take --mode append or --mode overwrite, or a new place"
        )
