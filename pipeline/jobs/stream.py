"""``stream``: a table of the last values that follows its topic, micro-batch by micro-batch.

Spark keeps the offsets of a query in its checkpoint and repeats a batch that was interrupted. The
table's own commit names the offsets that are in it, so a repeated batch adds no row again. ``--via
connector`` reads by Spark's own Kafka source instead.
"""

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.command.progress import seconds_text
from siltstone.pipeline.engine import Engine, SparkEngine
from siltstone.pipeline.errors import BadOption, PipelineError, Refused
from siltstone.pipeline.jobs.latest_tasks import LatestTasks
from siltstone.pipeline.latest import shares
from siltstone.pipeline.options import READ_COMMITTED, ReadOptions
from siltstone.pipeline.sinks.staging import NO_SPACE, StagedFile, full_disk, retried
from siltstone.pipeline.sinks.state import TableState, described
from siltstone.pipeline.sinks.table import TableSink, open_table
from siltstone.pipeline.transports import open_source
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = "siltstone-batch"
"""The folder of the checkpoint in which Spark leaves a batch for the driver."""
_MAX_BYTES: Final = "256m"
"""The log that a micro-batch reads, unless an option says otherwise."""
_MAX_OFFSETS: Final = "250000"
"""The same for the connector, which has no limit of bytes."""
_SHARE_BYTES: Final = 128 << 20
_ROWS: Final = 16 << 10
_PLACES: Final = {"bootstrap", "data", "control", "archive", "transport", "unpinned"}
_BY_PARTITION: Final = "partition"
_EVERY_RECORD: Final = "record"
_ROWS_OF: Final = {
    _BY_PARTITION: "the last row of each key of a partition",
    _EVERY_RECORD: "every record",
    "topic": "the last row of each key of the topic",
    "export": "the rows of an export",
}
_CONNECTOR_OPTIONS: Final = ("starting", "ending", "kafka.", "max", "min", "fail", "include")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """The topic and the table; without ``upsert`` all records are kept, not a key's last only."""

    topic: str
    target: str
    checkpoint: Path
    via: str = "siltstone"
    once: bool = False
    every: str = "10 seconds"
    headers: bool = False
    upsert: bool = True

    @property
    def key_scope(self) -> str:
        """Return the key of the table's rows."""
        return _BY_PARTITION if self.upsert else _EVERY_RECORD

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        names = ["key", "value", "partition", "offset", "timestamp"]
        names += ["headers"] if self.headers else []
        return pa.schema([(name, TYPES[name]) for name in names])


@dataclass(slots=True)
class StreamSummary:
    """The result of a stream until it ended."""

    batches: int = 0
    repeated: int = 0
    rows: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """Return it in words."""
        return (
            f"stream: {self.rows:,} records in {self.batches} batches, {self.repeated} of them "
            f"repeated, in {seconds_text(self.seconds)}"
        )


def stream(session: "SparkSession", options: Mapping[str, str], spec: StreamSpec) -> StreamSummary:
    """Follow a topic until the query ends: with ``once`` at the present end, else when stopped.

    Raises:
        PipelineError: The table is of another topic, has other columns, or another writer has
            changed it.
    """
    clock = Clock()
    began = clock.monotonic()
    summary = StreamSummary()
    sink = open_table(spec.target)
    with sink.held():
        sink.check(spec.schema, keeps=True)
        origin = _find_origin(options, spec)
        if check_topic(sink, spec, origin) is not None:
            _check_start(sink, options, spec)
        writer = BatchWriter(sink, spec, summary, SparkEngine(session), origin)
        frame = _reader(session, options, spec)
        query = frame.writeStream.foreachBatch(writer.write).option(
            "checkpointLocation", str(spec.checkpoint.absolute())
        )
        if spec.once and spec.via == "connector":
            query = query.trigger(availableNow=True)
        else:  # Spark 4.1 cannot tell a source in Python where a run ends
            query = query.trigger(processingTime="0 seconds" if spec.once else spec.every)
        running = query.start()
        try:
            if spec.once:
                running.processAllAvailable()
            else:
                running.awaitTermination()
        finally:
            running.stop()
            summary.seconds = clock.monotonic() - began
    return summary


class Origin(NamedTuple):
    """The ids of cluster and topic; empty if they are not known: not every broker sends them."""

    cluster_id: str = ""
    topic_id: str = ""


def check_topic(sink: TableSink, spec: StreamSpec, origin: Origin) -> TableState | None:
    """Return the state of a table, which must be of this topic: only its offsets mean anything.

    Raises:
        BadOption: It is of a topic of another name or cluster, of a deleted one, or has other rows.
        Refused: It has rows of another writer, and no state.
    """
    state = sink.state()
    if state is None:
        return None
    if state.topic != spec.topic:
        raise BadOption(
            f"the table {sink.place} is of topic {state.topic}, and the stream of {spec.topic}; "
            "name another table"
        )
    for held, now in zip((state.cluster_id, state.topic_id), origin, strict=True):
        if held and now and held != now:
            raise BadOption(
                f"topic {spec.topic} was deleted and made again since the table {sink.place} was "
                "written, or is one of another cluster; name another table"
            )
    if state.key_scope not in {spec.key_scope, _BY_PARTITION}:
        raise BadOption(
            f"the table {sink.place} has {_ROWS_OF.get(state.key_scope, 'other rows')}, and this "
            f"stream keeps {_ROWS_OF[spec.key_scope]}; name another table"
        )
    return state


def _check_start(sink: TableSink, options: Mapping[str, str], spec: StreamSpec) -> None:
    """Check that a stream without a checkpoint leaves out nothing that its table lacks."""
    late = [
        name
        for name, value in options.items()
        if name.lower().startswith("starting") and value.strip().lower() != "earliest"
    ]
    if late and not any((spec.checkpoint / "offsets").glob("[0-9]*")):
        raise BadOption(
            f"the table {sink.place} has {spec.topic} to some offsets, and a new checkpoint would "
            f"go on where {late[0]} says: leave {late[0]} out, which reads from the start and adds "
            "what is new, or name another table"
        )


def _find_origin(options: Mapping[str, str], spec: StreamSpec) -> Origin:
    """Return the topic as it is now.

    Raises:
        PipelineError: The topic cannot be looked at.
    """
    place = {
        name: value
        for name, value in options.items()
        if name.lower() in _PLACES or name.lower().startswith("kafka.")
    }
    try:
        with open_source(ReadOptions.parse({**place, "subscribe": spec.topic})) as source:
            view = source.view()
            return Origin(view.cluster_id, next((each.topic_id for each in view.partitions), ""))
    except PipelineError:
        if spec.via == "siltstone":
            raise
        return Origin()  # the connector knows more logins, and reports what is wrong


class BatchWriter:
    """Writes micro-batches into a table, each offset once (driver only)."""

    def __init__(
        self,
        sink: TableSink,
        spec: StreamSpec,
        summary: StreamSummary,
        engine: Engine,
        origin: Origin,
    ) -> None:
        self._engine = engine
        self._sink = sink
        self._spec = spec
        self._summary = summary
        self._origin = origin

    def write(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one batch, without what the table has already.

        Raises:
            BadOption: Another writer has changed its columns, or made it one of another topic.
            Refused: Another writer has made the table again, or it is not that of the checkpoint.
        """
        folder = self._spec.checkpoint.absolute() / BATCH
        self._stage(frame.select(list(self._spec.schema.names)), folder)
        self._summary.batches += 1
        try:
            paths = tuple(sorted(folder.glob("*.parquet")))
            rows = retried(lambda: self._commit(paths, batch_id))
        finally:
            shutil.rmtree(folder)
        self._summary.rows += rows or 0
        self._summary.repeated += rows is None
        self._sink.compact(self._engine)

    def _stage(self, frame: "DataFrame", folder: Path) -> None:
        """Write a batch beside the checkpoint, by Spark.

        Raises:
            SinkFailed: The disk is full.
        """
        try:
            frame.write.mode("overwrite").parquet(str(folder))
        except Exception as error:  # the class of Spark's error depends on the place of the failure
            if NO_SPACE in str(error):
                raise full_disk(folder.parent) from error
            raise

    def _ends(self, batch_id: int) -> dict[int, int]:
        """Return the offsets at which a batch ends, by Spark's checkpoint; nothing without one."""
        try:
            lines = (self._spec.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
        except FileNotFoundError:
            return {}
        offsets = json.loads(lines[-1])[self._spec.topic]
        return {int(name): at for name, at in offsets.items() if name.isdigit()}

    def _commit(self, paths: tuple[Path, ...], batch_id: int) -> int | None:
        """Commit what the table does not have of a batch; return how many rows, None if it has all.

        The first batch leaves a state, also without rows.
        """
        sink, spec = self._sink, self._spec
        sink.look()
        sink.check(spec.schema, keeps=True)
        state = check_topic(sink, spec, self._origin)
        if state is None and batch_id:
            raise Refused(
                f"{sink.place} has nothing of the batches before, which the checkpoint "
                f"{spec.checkpoint} has: the table was taken away; delete the checkpoint too, to "
                "begin at the start"
            )
        offsets = {} if state is None else state.offsets
        for partition, begin in self._ends(batch_id - 1).items():
            if offsets.get(partition, 0) < begin:
                raise Refused(
                    f"{sink.place} has partition {partition} of {spec.topic} to offset "
                    f"{offsets.get(partition, 0)}, and this batch begins at {begin}: an earlier "
                    f"version was restored; delete the checkpoint {spec.checkpoint} to go on from "
                    "the table's offsets"
                )
        is_merge = spec.upsert and state is not None
        tasks = LatestTasks(
            folder=sink.folder, schema=spec.schema, by_time=False, is_increment=is_merge
        )
        batch = Batch(paths=paths, seen=offsets, tasks=tasks, upsert=spec.upsert)
        rows, lasts = batch.count()
        ends = self._ends(batch_id)
        is_known = all(offsets.get(partition, 0) >= end for partition, end in ends.items())
        if not rows and state is not None and is_known:
            return None
        following = TableState(
            job=uuid.uuid4().hex[:12],
            topic=spec.topic,
            topic_id=self._origin.topic_id,
            cluster_id=self._origin.cluster_id,
            taken_at_ms=self._engine.clock.now_ms(),
            key_scope=spec.key_scope,
            columns=described(spec.schema),
            offsets={
                at: max(each.get(at, 0) for each in (offsets, ends, lasts))
                for at in {*offsets, *ends, *lasts}
            },
        )
        found = self._engine.run("batch", range(batch.shares), batch.share, batch.weigh)
        files = [file for each in found for file in each]
        if is_merge:
            sink.merge(self._engine, following, spec.schema, files, by_partition=True)
        else:
            sink.commit(following, spec.schema, files, replaces=False)
        return rows


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The rows of a micro-batch that Spark has left in files; it is sent to the executors."""

    paths: tuple[Path, ...]
    seen: Mapping[int, int]
    """The offsets that the table has, by partition; rows below them are left out."""
    tasks: LatestTasks
    upsert: bool

    @cached_property
    def size(self) -> int:
        """Bytes of the rows, as in memory."""
        return sum(
            facts.row_group(number).total_byte_size
            for facts in map(pq.read_metadata, self.paths)
            for number in range(facts.num_row_groups)
        )

    @property
    def shares(self) -> int:
        """How many tasks take the batch."""
        return -(-self.size // _SHARE_BYTES)

    def weigh(self, _share: int) -> int:
        """Return the bytes of a share."""
        return self.size // self.shares

    def count(self) -> tuple[int, dict[int, int]]:
        """Return how many rows the table lacks, and the offset after the last by partition."""
        rows, lasts = 0, dict[int, int]()
        for path in self.paths:
            for table in self._read(path, ["partition", "offset"]):
                rows += table.num_rows
                found = table.group_by("partition").aggregate([("offset", "max")])
                for partition, last in zip(*found.to_pydict().values(), strict=True):
                    lasts[partition] = max(lasts.get(partition, 0), last + 1)
        return rows, lasts

    def share(self, number: int) -> Sequence[StagedFile]:
        """Write a share of the rows: of some files, or of the last rows of some keys."""
        names = self.tasks.schema.names
        if not self.upsert:
            paths = self.paths[number :: self.shares]
            return self.tasks.append(table for path in paths for table in self._read(path, names))
        return self.tasks.gather(
            number,
            (
                part
                for path in self.paths
                for table in self._read(path, names)
                for place, part in shares(table, self.shares)
                if place == number
            ),
        ).files

    def _read(self, path: Path, names: list[str]) -> Iterator[pa.Table]:
        schema = pa.schema([self.tasks.schema.field(name) for name in names])
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=names):
                table = pa.Table.from_batches([batch]).select(names).cast(schema)
                for partition, end in self.seen.items():
                    is_seen = pc.and_(
                        pc.equal(table["partition"], partition), pc.less(table["offset"], end)
                    )
                    table = table.filter(pc.invert(is_seen))
                if table.num_rows:
                    yield table


def _reader(session: "SparkSession", options: Mapping[str, str], spec: StreamSpec) -> "DataFrame":
    if spec.via == "siltstone":
        given = {"subscribe": spec.topic, "isolation": READ_COMMITTED, **options}
        if spec.headers:
            given["includeHeaders"] = "true"
        if spec.once:
            given["untilNow"] = "true"
        given.setdefault("startingOffsets", "earliest")
        if not _has_limit(options):
            given["maxBytesPerTrigger"] = _MAX_BYTES
        return session.readStream.format("siltstone").options(**given).load()
    bootstrap = options.get("bootstrap", "")
    if not bootstrap:
        raise BadOption("--via connector wants --bootstrap: it reads over the network")
    given = {
        name: value
        for name, value in options.items()
        if name.lower().startswith(_CONNECTOR_OPTIONS)
    }
    given.setdefault("startingOffsets", "earliest")
    given.setdefault("kafka.isolation.level", READ_COMMITTED)
    if not _has_limit(options):
        given["maxOffsetsPerTrigger"] = _MAX_OFFSETS
    given |= {"subscribe": spec.topic, "kafka.bootstrap.servers": bootstrap}
    if spec.headers:
        given["includeHeaders"] = "true"
    return session.readStream.format("kafka").options(**given).load()


def _has_limit(options: Mapping[str, str]) -> bool:
    return any(name.lower() in {"maxoffsetspertrigger", "maxbytespertrigger"} for name in options)
