"""``snapshot``: the last value of every key of a topic as a table, whole or by increments.

Without a shuffle each task takes whole partitions. With one, tasks take splits, keep the last row
of each key in them, and send those to the task that has the key's hash. That spreads a large
partition, and finds keys that are in several partitions. Either way the tasks write Parquet
themselves, and the driver commits all files at once.

An increment reads from the offsets that the table's own commits name, and merges the changed rows
by their keys. If another writer commits meanwhile, they are merged again into what that one left.
A stream repeats increments; it may keep every record in the place of the last ones, too.
"""

import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, TypeAlias, cast

import pyarrow as pa

from siltstone.pipeline.columns import arrow_schema
from siltstone.pipeline.command.progress import passed_over_text, seconds_text
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import Refused
from siltstone.pipeline.jobs.reading import Moment, committed, moment_of
from siltstone.pipeline.jobs.table_tasks import TableTasks, TaskResult, size_of
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.sinks.staging import retried
from siltstone.pipeline.sinks.state import TableState, described
from siltstone.pipeline.sinks.table import NewSink, TableSink, open_new, open_table
from siltstone.storage.topic_partition import TopicPartition

MEMORY_BYTES: Final = 2 << 30
"""The bytes of log that one task takes: it would hold them all if no key repeats."""
_SKEW: Final = 2
_SMALL_BYTES: Final = 128 << 20
_TASK_BYTES: Final = 16 << 20
"""Less than that is no task of its own, and so no file of its own."""
_COMMITS_PER_RETENTION: Final = 4
"""How often a stream without news says in the time of a tombstone that it has seen all."""
_Part: TypeAlias = tuple[Split, ...]
EVERY_RECORD: Final = "record"
_ROWS_OF: Final = {
    "partition": "the last row of each key of a partition",
    "topic": "the last row of each key of the topic",
    EVERY_RECORD: "every record",
    "export": "the rows of an export",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSpec:
    """The topic and the table of a snapshot, and how it is made."""

    topic: str
    target: str
    incremental: bool = False
    follows: bool = False
    """Whether it is a stream's: it makes no commit without news, and takes no other table over."""
    key_scope: str = "partition"
    plan: str = "auto"
    headers: bool = False
    memory_bytes: int = MEMORY_BYTES

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the table."""
        columns = ("key", "value", "partition", "offset", "timestamp")
        return (*columns, "headers") if self.headers else columns

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their types."""
        return arrow_schema(self.columns)


@dataclass(slots=True, kw_only=True)
class SnapshotSummary:
    """The result of a snapshot."""

    mode: str
    plan: str
    version: str
    rows: int
    rows_read: int
    tombstones: int
    without_key: int
    files: int
    bytes_read: int
    seconds: float
    offsets: dict[int, tuple[int, int]]
    taken_at_ms: int
    passed_over: int
    ends: dict[int, int]
    """The end of each partition at the moment; limits may end an increment before."""
    reason: str = ""

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Tell whether the table has partitions to some ends."""
        nowhere = (0, 0)
        return all(self.offsets.get(at, nowhere)[1] >= end for at, end in ends.items())

    def lines(self, topic: str) -> Iterator[str]:
        """Yield it in words."""
        ranges = ", ".join(
            f"{number}: {low}-{high}" for number, (low, high) in self.offsets.items()
        )
        yield (
            f"snapshot of {topic}: {self.mode}, plan {self.plan}, {self.rows:,} rows in "
            f"{self.files} files from {self.rows_read:,} records, {self.tombstones:,} tombstones, "
            f"in {seconds_text(self.seconds)}; version {self.version}; offsets {ranges}"
            f"{passed_over_text(self.passed_over)}"
        )
        if self.without_key:
            yield f"{self.without_key:,} records have no key and are not in the table"


def snapshot(engine: Engine, options: dict[str, str], spec: SnapshotSpec) -> SnapshotSummary:
    """Write the table or bring it up to date, and return the result.

    Raises:
        PipelineError: Nothing was changed.
    """
    sink = (open_table if spec.incremental else open_new)(spec.target)
    with sink.held():
        return write(engine, sink, committed({"subscribe": spec.topic, **options}), spec)


def write(engine: Engine, sink: NewSink, read: ReadOptions, spec: SnapshotSpec) -> SnapshotSummary:
    """Do the work of `snapshot` on a table that the caller holds.

    Raises:
        PipelineError: Nothing was changed.
    """
    began = engine.clock.monotonic()
    moment: Moment
    runs: list[_Run] = []

    def take_moment() -> Moment:
        runs.clear()
        held.close()
        return held.enter_context(moment_of(read, engine.clock))

    def attempt() -> SnapshotSummary:
        nonlocal moment
        sink.look()
        sink.check(spec.schema, keeps=False)
        state, reason = _known_state(sink, spec)
        if not spec.incremental:
            state, reason = None, ""
        if state is not None:
            if _is_beyond(state, moment):  # another job may have read the topic since
                moment = take_moment()
            reason = _find_reason(sink, state, spec, moment)
            state = None if reason else state
        if state is not None:
            sink.check(spec.schema, keeps=True)
        if not runs or runs[-1].state != state:
            runs.append(_Run(engine, sink, spec, moment, state))
            if reason:
                sys.stderr.write(f"the whole table is built again: {reason}\n")
        summary = runs[-1].finish()
        summary.reason = reason
        return summary

    with ExitStack() as held:
        sink.check(spec.schema, keeps=False)
        moment = take_moment()
        summary = retried(attempt)
    summary.seconds = engine.clock.monotonic() - began
    return summary


class _Run:
    """One snapshot from the planned splits to the commit (driver only)."""

    def __init__(
        self,
        engine: Engine,
        sink: NewSink,
        spec: SnapshotSpec,
        moment: Moment,
        state: TableState | None,
    ) -> None:
        self._engine = engine
        self._sink = sink
        self._spec = spec
        self._moment = moment
        self.state = state
        self._job = uuid.uuid4().hex[:12]
        self._ranges = dict(moment.ranges) if state is None else _increments(moment, state)
        if state is not None or spec.key_scope == EVERY_RECORD:
            self._ranges = moment.within_limits(self._ranges)
        self._splits = moment.plan_by_partition(self._ranges)
        self._tasks = TableTasks(
            folder=sink.folder,
            schema=spec.schema,
            by_time=spec.key_scope == "topic",
            is_increment=state is not None,
        )

    def finish(self) -> SnapshotSummary:
        """Read and write, once, and commit."""
        results = self._results
        files = [file for result in results for file in result.files]
        self._moment.check()
        state, schema = self._new_state(), self._spec.schema
        if self.state is not None and self._spec.follows and not self._has_news(self.state):
            version = ""
        elif self.state is None or self._spec.key_scope == EVERY_RECORD:
            version = self._sink.commit(state, schema, files, replaces=self.state is None)
        else:
            version = cast("TableSink", self._sink).merge(
                self._engine,
                state,
                schema,
                files,
                by_partition=self._spec.key_scope == "partition",
            )
        return SnapshotSummary(
            mode="increment" if self.state is not None else "whole",
            plan=self._plan,
            version=version,
            rows=sum(result.rows for result in results),
            rows_read=sum(result.rows_read for result in results),
            tombstones=sum(result.tombstones for result in results),
            without_key=sum(result.without_key for result in results),
            files=len(files),
            bytes_read=sum(self._sizes),
            seconds=0.0,
            offsets={
                partition: (span.start, span.end)
                for (_, partition), span in sorted(self._ranges.items())
            },
            taken_at_ms=self._moment.view.taken_at_ms,
            passed_over=sum(result.passed_over for result in results),
            ends=self._ends,
        )

    @property
    def _ends(self) -> dict[int, int]:
        return {partition: span.end for (_, partition), span in self._moment.ranges.items()}

    def _has_news(self, state: TableState) -> bool:
        """Tell whether a commit says more than a state, which must not grow old."""
        offsets = {partition: span.end for (_, partition), span in self._ranges.items()}
        age_ms = self._moment.view.taken_at_ms - state.taken_at_ms
        return offsets != state.offsets or any(
            age_ms * _COMMITS_PER_RETENTION > partition.delete_retention_ms
            for partition in self._moment.view.partitions
            if partition.is_compacted
        )

    @cached_property
    def _results(self) -> list[TaskResult]:
        whole = [*self._splits.values()]
        single = [(split,) for group in whole for split in group]
        if self._plan == "shuffle":
            places = max(self._engine.cores, -(-sum(self._sizes) // self._spec.memory_bytes), 1)
            spread = partial(self._tasks.spread, places)
            return self._engine.shuffle(
                self._stage, single, spread, self._tasks.gather, places, size_of
            )
        if self._plan == "record":
            return self._run(single, self._tasks.all_rows)
        return self._run(whole, self._tasks.last_rows)

    @cached_property
    def _plan(self) -> str:
        """Return the requested plan; by default the one that uses all cores."""
        spec = self._spec
        if spec.key_scope in {"topic", EVERY_RECORD}:
            return "shuffle" if spec.key_scope == "topic" else "record"
        if spec.plan != "auto":
            return spec.plan
        sizes = self._sizes
        if max(sizes, default=0) > spec.memory_bytes:
            return "shuffle"
        if not sizes or sum(sizes) < _SMALL_BYTES:
            return "partition"
        fair = sum(sizes) / max(1, self._engine.cores)
        return "shuffle" if max(sizes) > _SKEW * fair else "partition"

    @property
    def _sizes(self) -> list[int]:
        """Return the bytes to read of each partition."""
        return [*map(size_of, self._splits.values())]

    def _run(self, parts: Iterable[_Part], work: Callable[[_Part], TaskResult]) -> list[TaskResult]:
        """Run tasks of whole parts: enough for all cores, but no tiny ones."""
        least = max(_TASK_BYTES, sum(self._sizes) // self._engine.cores)
        tasks: list[_Part] = []
        for part in parts:
            if tasks and size_of(tasks[-1]) + size_of(part) <= least:
                tasks[-1] += part
            else:
                tasks.append(part)
        return self._engine.run(self._stage, tasks, work, size_of)

    @property
    def _stage(self) -> str:
        return f"snapshot {self._spec.topic}"

    def _new_state(self) -> TableState:
        taken_at_ms = self._moment.view.taken_at_ms
        ends = {partition: span.end for (_, partition), span in self._ranges.items()}
        if self.state is not None and any(ends[at] < end for at, end in self._ends.items()):
            taken_at_ms = self.state.taken_at_ms  # tombstones that are still to come are as old
        return TableState(
            job=self._job,
            topic=self._spec.topic,
            topic_id=_topic_id(self._moment),
            cluster_id=self._moment.view.cluster_id,
            taken_at_ms=taken_at_ms,
            key_scope=self._spec.key_scope,
            columns=described(self._spec.schema),
            offsets=ends,
        )


def _known_state(sink: NewSink, spec: SnapshotSpec) -> tuple[TableState | None, str]:
    """Return the state of the table; or None and why it has none.

    Raises:
        Refused: The table has rows of another writer, and no state.
    """
    try:
        state = sink.state()
    except ValueError as error:
        if spec.follows:
            raise _not_followed(sink, str(error)) from error
        return None, str(error)
    return state, f"{sink.place} has no snapshot yet" if state is None else ""


def _not_followed(sink: NewSink, reason: str) -> Refused:
    return Refused(f"a stream does not go on with {sink.place}: {reason}; name another table")


def _is_beyond(state: TableState, moment: Moment) -> bool:
    """Tell whether a table has offsets that its topic had not reached at a moment."""
    return any(
        state.offsets.get(each.partition, 0) > each.end_offset for each in moment.view.partitions
    )


def _find_reason(sink: NewSink, state: TableState, spec: SnapshotSpec, moment: Moment) -> str:
    """Return why a table is built again; empty if an increment does.

    Raises:
        Refused: A stream does not build it again: it would lose rows that are not in the topic.
    """
    other = _find_difference(state, spec, moment)
    keeps_all = spec.key_scope == EVERY_RECORD
    reason = other or _find_gap(state, moment, has_tombstones=not keeps_all)
    if reason and spec.follows and (other or keeps_all):
        raise _not_followed(sink, reason)
    return reason


def _find_difference(state: TableState, spec: SnapshotSpec, moment: Moment) -> str:
    """Return why a table is not the one that a job would make; empty if it is."""
    if state.topic != spec.topic:
        return f"it was made of topic {state.topic}"
    if state.key_scope != spec.key_scope:
        return f"it has {_ROWS_OF.get(state.key_scope, 'other rows')}"
    if state.columns != described(spec.schema):
        return "it has other columns"
    clusters = {state.cluster_id, moment.view.cluster_id} - {""}
    if state.topic_id != _topic_id(moment) or len(clusters) > 1:
        return f"topic {spec.topic} was deleted and made again since"
    return ""


def _find_gap(state: TableState, moment: Moment, *, has_tombstones: bool) -> str:
    """Return why the changes since a state cannot be read; empty if they can."""
    for partition in moment.view.partitions:
        offset = state.offsets.get(partition.partition, partition.log_start_offset)
        if offset < partition.log_start_offset:
            return (
                f"{partition.topic_partition} begins at offset {partition.log_start_offset} now, "
                f"and the table ends at {offset}"
            )
        if offset > partition.end_offset:
            return (
                f"{partition.topic_partition} ends at offset {partition.end_offset}, below the "
                f"table's {offset}: it has lost its end"
            )
        passed_ms = moment.view.taken_at_ms - state.taken_at_ms
        if not has_tombstones or not partition.is_compacted:
            continue
        if passed_ms >= partition.delete_retention_ms:
            return (
                f"the table is {seconds_text(passed_ms / 1000)} old, and tombstones of "
                f"{partition.topic_partition} are kept for "
                f"{seconds_text(partition.delete_retention_ms / 1000)} only"
            )
    return ""


def _increments(moment: Moment, state: TableState) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges since a state; a new partition is read from its start."""
    ranges = {}
    for each in moment.view.partitions:
        start = state.offsets.get(each.partition, each.log_start_offset)
        end = max(start, moment.ranges[each.topic_partition].end)
        ranges[each.topic_partition] = OffsetRange(start, end)
    return ranges


def _topic_id(moment: Moment) -> str:
    ids = {partition.topic_id for partition in moment.view.partitions}
    return ids.pop() if len(ids) == 1 else ""
