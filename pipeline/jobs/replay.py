"""``replay``: a table, or a range of a topic, back into a topic.

Timestamps and headers are kept, and so is the partition, unless keys are to choose it. A task sends
the rows of one source partition or file in their order. Without ``--exactly-once`` each row arrives
at least once: progress is noted when the broker has acknowledged, so after a crash what was sent
since then is sent again. With it, rows and progress are in the same transactions.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from siltstone.pipeline.command.progress import seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.jobs.replay_source import Part, count_bytes
from siltstone.pipeline.jobs.replay_task import Target, TaskDone, send_part
from siltstone.pipeline.sinks.kafka import check_partitions
from siltstone.pipeline.sinks.table import open_table
from siltstone.storage.clock import Clock

_TABLES = ("parquet:", "delta:", "iceberg:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """What is wanted: ``source`` is a table or the name of a topic."""

    source: str
    topic: str
    rate: int = 0
    by_key: bool = False
    progress: Path | None = None
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
        rest = f", {self.skipped:,} were there already" if self.skipped else ""
        rate = f"{size(self.sent_bytes / self.seconds)}/s" if self.seconds else "-"
        return (
            f"replay: {self.records:,} records sent {how}{rest}, {size(self.sent_bytes)} in "
            f"{seconds_text(self.seconds)} ({rate})"
        )


def replay(engine: Engine, options: Mapping[str, str], spec: ReplaySpec) -> ReplaySummary:
    """Send all that the source has.

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
        if not spec.by_key:
            check_partitions(bootstrap, settings, spec.topic, parts)
        target = Target(
            bootstrap=bootstrap,
            settings=settings,
            topic=spec.topic,
            rate=spec.rate // max(1, min(len(parts), engine.cores)) if spec.rate else 0,
            by_key=spec.by_key,
            progress=spec.progress,
            exactly_once=spec.exactly_once,
            job=_name_of(spec),
        )
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
        files = open_table(spec.source).files()
        if not files:
            raise BadOption(f"{spec.source} has no files; there is nothing to send")
        yield [Part(name=path.name, file=path) for path in files]
        return
    with moment_of(committed({"subscribe": spec.source, **options}), clock) as moment:
        by_partition = moment.plan_by_partition()
        yield [Part(name=str(at), splits=splits) for at, splits in by_partition.items()]


def _name_of(spec: ReplaySpec) -> str:
    """Return a name by which a later run of the same replay finds its progress."""
    return hashlib.blake2b(f"{spec.source}\n{spec.topic}".encode(), digest_size=6).hexdigest()
