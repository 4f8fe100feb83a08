"""``replay``: a table, or a range of a topic, back into a topic.

Timestamps and headers are kept, and so is the partition, unless keys are to choose it. A task sends
the rows of one source partition or file in their order. With ``--exactly-once`` rows and progress
are in the same transactions, and a later run goes on. Without it each run sends everything.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyarrow import fs

from siltstone.pipeline.command.progress import seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.jobs.replay_source import Part, TableFile, count_bytes
from siltstone.pipeline.jobs.replay_task import Target, TaskDone, check_progress, send_part
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.sinks.kafka import check_partitions, look_at
from siltstone.pipeline.sinks.table import NewSink, open_new
from siltstone.pipeline.stores import join
from siltstone.storage.clock import Clock

_TABLES: Final = ("parquet:", "delta:", "iceberg:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """The source and the target of a replay: ``source`` is a table or the name of a topic."""

    source: str
    topic: str
    rate: int = 0
    by_key: bool = False
    exactly_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """The result of a replay."""

    records: int
    skipped: int
    sent_bytes: int
    seconds: float
    exactly_once: bool

    def line(self) -> str:
        """Return it in words."""
        how = "exactly once" if self.exactly_once else "at least once"
        rest = f", {self.skipped:,} existed already" if self.skipped else ""
        rate = f"{size(self.sent_bytes / self.seconds)}/s" if self.seconds else "-"
        return (
            f"replay: {self.records:,} records sent {how}{rest}, {size(self.sent_bytes)} in "
            f"{seconds_text(self.seconds)} ({rate})"
        )


def replay(engine: Engine, options: Mapping[str, str], spec: ReplaySpec) -> ReplaySummary:
    """Send all records of the source.

    Raises:
        PipelineError: Not everything was sent; run it again to go on.
    """
    began = engine.clock.monotonic()
    bootstrap = options.get("bootstrap", "")
    if not bootstrap:
        raise BadOption("replay wants --bootstrap: the broker whose topic is to be written")
    settings = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name.startswith("kafka.") and name != "kafka.isolation.level"
    }
    with _parts(options, spec, engine.clock) as parts:
        there = look_at(bootstrap, settings, spec.topic)
        if not spec.by_key:
            check_partitions(there, parts)
        target = Target(
            bootstrap=bootstrap,
            settings=settings,
            topic=spec.topic,
            rate=spec.rate // max(1, min(len(parts), engine.cores)) if spec.rate else 0,
            by_key=spec.by_key,
            exactly_once=spec.exactly_once,
            job=name_of(spec),
            place=there.place,
            ends=there.ends,
        )
        check_progress(target, parts)
        done: list[TaskDone] = engine.run("replay", parts, partial(send_part, target), count_bytes)
    return ReplaySummary(
        records=sum(each.records for each in done),
        skipped=sum(each.skipped for each in done),
        sent_bytes=sum(each.sent_bytes for each in done),
        seconds=engine.clock.monotonic() - began,
        exactly_once=spec.exactly_once,
    )


@contextmanager
def _parts(options: Mapping[str, str], spec: ReplaySpec, clock: Clock) -> Iterator[list[Part]]:
    """Yield the parts of a source, with a pin until the block ends."""
    if spec.source.startswith(_TABLES):
        table = open_new(spec.source)
        files = table.files()
        if table.has_deleted_rows:
            raise BadOption(
                f"some rows in the files of {spec.source} are deleted by other files (deletion "
                "vectors, position deletes), and would be sent: rewrite those files first, as by "
                "REORG TABLE ... APPLY (PURGE) for Delta, rewrite_data_files for Iceberg"
            )
        if not files:
            raise BadOption(f"{spec.source} has no files; there is nothing to send")
        parts = [file_of(table, place) for place in files]
        yield [Part(name=file.name, origin=file.describe(), file=file) for file in parts]
        return
    with moment_of(committed({"subscribe": spec.source, **options}), clock) as moment:
        yield [
            Part(
                name=str(at),
                origin=_origin_of(splits[0], moment.view.cluster_id),
                start=splits[0].start_offset,
                splits=splits,
            )
            for at, splits in moment.plan_by_partition().items()
        ]


def _origin_of(split: Split, cluster_id: str) -> str:
    """Return the id of the topic (of its cluster, if it has none), and which records are read."""
    rules = split.rules
    isolation = "committed" if rules.is_committed else "uncommitted"
    topic = split.topic_id or f"{cluster_id}/{split.topic}"
    times = "" if rules.is_of_all_times else f" of {rules.time_from} to {rules.time_last} ms"
    return f"topic {topic}, {isolation} records{times}"


def file_of(table: NewSink, place: str) -> TableFile:
    """Return a file of a table; one in a store by the file system of the table's library.

    Raises:
        BadOption: It is in another folder of a store.
    """
    files: fs.FileSystem = fs.LocalFileSystem()
    path = place
    if "://" in place:
        folder = table.home
        if not place.startswith(join(folder.uri, "")):
            raise BadOption(f"{place} is outside of its table's folder {folder.uri}; copy it there")
        files, path = folder.files, join(folder.path, place[len(join(folder.uri, "")) :])
    return TableFile(files, path, files.get_file_info(path).size)


def name_of(spec: ReplaySpec) -> str:
    """Return a name by which a later run of the same replay finds its progress."""
    return hashlib.blake2b(f"{spec.source}\n{spec.topic}".encode(), digest_size=6).hexdigest()
