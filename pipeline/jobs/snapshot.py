"""``snapshot``: the last value of every key of a topic as a table, whole or by increments.

Without a shuffle each task takes one partition, or a share of its keys if it is large. With one,
tasks take splits, keep the last row of each key in them, and send those to the task that has the
key's hash. That spreads a skewed partition, and finds keys that are in several partitions. Either
way the tasks write Parquet themselves, and the driver commits all files at once.

An increment reads from the offsets that the table's own commits name, and merges the changed rows
by their keys. If another writer commits meanwhile, they are merged again into what that one left.
"""

import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.command.progress import passed_over_text, seconds_text
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.jobs.latest_tasks import LatestTasks, ShareTask, TaskResult
from siltstone.pipeline.jobs.reading import Moment, committed, moment_of
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.pipeline.sinks.staging import retried
from siltstone.pipeline.sinks.state import TableState, described
from siltstone.pipeline.sinks.table import TableSink, open_table
from siltstone.storage.topic_partition import TopicPartition

MEMORY_BYTES: Final = 2 << 30
"""The bytes of log that one task takes: it would hold them all if no key repeats."""
_SKEW: Final = 2
_SMALL_BYTES: Final = 128 << 20
_MOST_SHARES: Final = 4
"""Each share of the keys of a partition reads all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSpec:
    """The topic and the table of a snapshot, and how it is made."""

    topic: str
    target: str
    incremental: bool = False
    key_scope: str = "partition"
    plan: str = "auto"
    headers: bool = False
    text: bool = False
    memory_bytes: int = MEMORY_BYTES

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the table."""
        columns = ("key", "value", "partition", "offset", "timestamp")
        return (*columns, "headers") if self.headers else columns

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their types."""
        text = {"key", "value"} if self.text else set()
        return pa.schema(
            [(name, pa.string() if name in text else TYPES[name]) for name in self.columns]
        )


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
    keys_in_several_partitions: bool
    passed_over: int
    reason: str = ""

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
        if self.keys_in_several_partitions:
            yield (
                "some keys are in several partitions, so they have several rows; take "
                "--key-scope topic for the last row of each key by time"
            )


def snapshot(engine: Engine, options: dict[str, str], spec: SnapshotSpec) -> SnapshotSummary:
    """Write the table or bring it up to date, and return the result.

    Raises:
        PipelineError: Nothing was changed.
    """
    began = engine.clock.monotonic()
    sink = open_table(spec.target)
    read = committed({"subscribe": spec.topic, **options})
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
        state, reason = _known_state(sink)
        if not spec.incremental:
            state, reason = None, ""
        if state is not None:
            if _is_beyond(state, moment):  # another job may have read the topic since
                moment = take_moment()
            reason = _find_gap(state, spec, moment)
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

    with sink.held(), ExitStack() as held:
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
        sink: TableSink,
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
        self._splits = moment.plan_by_partition(self._ranges)
        self._tasks = LatestTasks(
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
        if self.state is None:
            version = self._sink.commit(state, schema, files, replaces=True)
        else:
            version = self._sink.merge(
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
            keys_in_several_partitions=_overlap(results),
            passed_over=sum(result.passed_over for result in results),
        )

    @cached_property
    def _results(self) -> list[TaskResult]:
        return self._by_partition() if self._plan == "partition" else self._by_shuffle()

    @cached_property
    def _plan(self) -> str:
        """Return the requested plan; by default the one that uses all cores."""
        spec = self._spec
        if spec.key_scope == "topic":
            return "shuffle"
        if spec.plan != "auto":
            return spec.plan
        sizes = self._sizes
        if max(sizes, default=0) > _MOST_SHARES * spec.memory_bytes:
            return "shuffle"
        if not sizes or sum(sizes) < _SMALL_BYTES:
            return "partition"
        fair = sum(sizes) / max(1, self._engine.cores)
        return "shuffle" if max(sizes) > _SKEW * fair else "partition"

    @property
    def _sizes(self) -> list[int]:
        """Return the bytes to read of each partition."""
        return [sum(split.size for split in group) for group in self._splits.values()]

    def _by_partition(self) -> list[TaskResult]:
        tasks = []
        for group in self._splits.values():
            size = sum(split.size for split in group)
            shares = max(1, -(-size // self._spec.memory_bytes))
            tasks += [
                ShareTask(splits=group, share=share, shares=shares) for share in range(shares)
            ]
        return self._engine.run(self._stage, tasks, self._tasks.share, _size_of)

    def _by_shuffle(self) -> list[TaskResult]:
        places = max(self._engine.cores, -(-sum(self._sizes) // self._spec.memory_bytes), 1)
        tasks = [
            ShareTask(splits=(split,), share=0, shares=places)
            for group in self._splits.values()
            for split in group
        ]
        return self._engine.shuffle(
            self._stage, tasks, self._tasks.spread, self._tasks.gather, places, _size_of
        )

    @property
    def _stage(self) -> str:
        return f"snapshot {self._spec.topic}"

    def _new_state(self) -> TableState:
        return TableState(
            job=self._job,
            topic=self._spec.topic,
            topic_id=_topic_id(self._moment),
            cluster_id=self._moment.view.cluster_id,
            taken_at_ms=self._moment.view.taken_at_ms,
            key_scope=self._spec.key_scope,
            columns=described(self._spec.schema),
            offsets={partition: span.end for (_, partition), span in self._ranges.items()},
        )


def _known_state(sink: TableSink) -> tuple[TableState | None, str]:
    """Return the state of the table; or None and why it has none.

    Raises:
        Refused: The table has rows of another writer, and no state.
    """
    try:
        state = sink.state()
    except ValueError as error:
        return None, str(error)
    return state, f"{sink.place} has no snapshot yet" if state is None else ""


def _is_beyond(state: TableState, moment: Moment) -> bool:
    """Tell whether a table has offsets that its topic had not reached at a moment."""
    return any(
        state.offsets.get(each.partition, 0) > each.end_offset for each in moment.view.partitions
    )


def _find_gap(state: TableState, spec: SnapshotSpec, moment: Moment) -> str:
    """Return why the changes since a state cannot be read; empty if they can."""
    if (state.topic, state.key_scope, state.columns) != (
        spec.topic,
        spec.key_scope,
        described(spec.schema),
    ):
        return "it was made of another topic, key scope or set of columns"
    clusters = {state.cluster_id, moment.view.cluster_id} - {""}
    if state.topic_id != _topic_id(moment) or len(clusters) > 1:
        return f"topic {spec.topic} was deleted and made again since"
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
        if partition.is_compacted and passed_ms >= partition.delete_retention_ms:
            return (
                f"the table is {seconds_text(passed_ms / 1000)} old, and tombstones of "
                f"{partition.topic_partition} are kept for "
                f"{seconds_text(partition.delete_retention_ms / 1000)} only"
            )
    return ""


def _increments(moment: Moment, state: TableState) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges since a state; a new partition is read from its start."""
    return {
        at: OffsetRange(max(span.start, state.offsets.get(at.partition, span.start)), span.end)
        for at, span in moment.ranges.items()
    }


def _topic_id(moment: Moment) -> str:
    ids = {partition.topic_id for partition in moment.view.partitions}
    return ids.pop() if len(ids) == 1 else ""


def _overlap(results: Sequence[TaskResult]) -> bool:
    """Tell whether a sampled key is in more than one partition."""
    seen: set[bytes] = set()
    for result in results:
        if result.has_repeats or not seen.isdisjoint(result.sample):
            return True
        seen |= result.sample
    return False


def _size_of(task: ShareTask) -> int:
    return task.size
