"""``audit``: checks the files on the disk, and that the cleaner has lost nothing.

The files are checked as ``siltstone verify`` does, a partition a task. Between two moments of a
topic the four laws of `pipeline.audit.laws` are checked. The earlier moment is an archive
(``--before``), or a pin that is taken before the broker is asked to clean (``--clean``).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from siltstone.pipeline.audit.files import check_files
from siltstone.pipeline.audit.findings import Findings
from siltstone.pipeline.audit.laws import COLUMNS, Rows, check_laws
from siltstone.pipeline.client.pins import Control, find_control
from siltstone.pipeline.columns import arrow_schema
from siltstone.pipeline.command.progress import counted, seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption, PipelineError
from siltstone.pipeline.jobs.reading import Moment, committed, moment_of
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import PinnedPartition
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.storage.clock import Clock
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import open_segment
from siltstone.storage.topic_partition import TopicPartition

_POLL_SECONDS: Final = 0.2
_CLEAN_SECONDS: Final = 600.0
_UNFINISHED: Final = {"requested", "in-progress", "aborting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSpec:
    """The topics to be audited; ``before`` is an archive of an earlier moment."""

    before: str = ""
    clean: bool = False
    laws_only: bool = False


@dataclass(slots=True)
class AuditReport:
    """The findings by partition."""

    findings: dict[TopicPartition, Findings] = field(default_factory=dict)
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes_read: int = 0
    keys_compared: int = 0
    seconds: float = 0.0

    @property
    def faults(self) -> int:
        """How many faults there are."""
        return sum(findings.total for findings in self.findings.values())

    def of(self, at: TopicPartition) -> Findings:
        """Return the findings of a partition, to which more can be added."""
        return self.findings.setdefault(at, Findings())

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "faults": self.faults,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes_read,
            "records_compared": self.keys_compared,
            "seconds": round(self.seconds, 3),
            "partitions": [
                {"topic": at.topic, "partition": at.partition, **findings.as_json()}
                for at, findings in sorted(self.findings.items())
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield it in words: every fault that is listed, and a summary."""
        for findings in self.findings.values():
            for finding in findings.listed:
                yield f"{finding.kind}: {finding.sentence}"
        rate = f"{size(self.bytes_read / self.seconds)}/s" if self.seconds else "-"
        yield (
            f"audit: {counted(self.faults, 'fault')} in "
            f"{counted(len(self.findings), 'partition')}, {counted(self.segments, 'segment')}, "
            f"{counted(self.records, 'record')}, {size(self.bytes_read)}, in "
            f"{seconds_text(self.seconds)} ({rate})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LawTask:
    """Two moments of one partition, as splits."""

    before: PinnedPartition
    after: PinnedPartition
    splits_before: tuple[Split, ...]
    splits_after: tuple[Split, ...]
    taken_after_ms: int
    taken_before_ms: int

    @property
    def size(self) -> int:
        """Return the bytes that it reads."""
        return sum(split.size for split in (*self.splits_before, *self.splits_after))


def audit(engine: Engine, options: Mapping[str, str], spec: AuditSpec) -> AuditReport:
    """Check files, and the laws between two moments where two are given.

    Raises:
        BadOption: The files of the segments are not visible to this machine.
        PipelineError: The audit could not be made. A finding is no error.
    """
    began = engine.clock.monotonic()
    report = AuditReport()
    read = committed(options)
    with ExitStack() as stack:
        before = None
        if spec.before:
            earlier = _of_archive(options, spec.before)
            before = stack.enter_context(_moment_of(earlier, engine.clock))
        elif spec.clean:
            before = stack.enter_context(_moment_of(read, engine.clock))
            _clean(find_control(Path(read.data), read.control), before, engine.clock)
        moment = stack.enter_context(_moment_of(read, engine.clock))
        if not spec.laws_only:
            if any("://" in (each.folder or "://") for each in moment.view.partitions):
                raise BadOption(
                    "audit looks into the files of segments, which neither the network nor a store "
                    "shows; give --data, or --archive of a folder that is seen here, or compare "
                    "two moments with --laws-only"
                )
            _audit_files(engine, moment, report)
        if before is not None:
            _audit_laws(engine, before, moment, report)
        moment.check()
    report.seconds = engine.clock.monotonic() - began
    return report


@contextmanager
def _moment_of(options: ReadOptions, clock: Clock) -> Iterator[Moment]:
    """Yield a moment; offsets that an archive lacks are a finding and do not end the audit."""
    with moment_of(options, clock) as moment:
        source = moment.source
        if moment.transport == "archive":
            source.options = replace(source.options, fail_on_data_loss=False)
        yield moment


def _audit_files(engine: Engine, moment: Moment, report: AuditReport) -> None:
    partitions = moment.view.partitions
    results = engine.run("audit", partitions, check_files, lambda partition: partition.size)
    for partition, found in zip(partitions, results, strict=True):
        report.of(partition.topic_partition).extend(found.findings)
        report.segments += len(partition.segments)
        report.batches += found.batches
        report.records += found.records
        report.bytes_read += partition.size


def _audit_laws(
    engine: Engine,
    before: Moment,
    after: Moment,
    report: AuditReport,
) -> None:
    tasks = law_tasks(before, after)
    results = engine.run("audit, laws", tasks, check_partition, lambda task: task.size)
    for task, (compared, findings) in zip(tasks, results, strict=True):
        report.keys_compared += compared
        report.of(task.after.topic_partition).extend(findings)


def law_tasks(before: Moment, after: Moment) -> list[LawTask]:
    """Return a task for each compacted partition that is in both moments.

    Raises:
        BadOption: No partition is in both.
    """
    earlier = {each.topic_partition: each for each in before.view.partitions}
    pairs = [
        (earlier[each.topic_partition], each)
        for each in after.view.partitions
        if each.topic_partition in earlier
    ]
    if not pairs:
        raise BadOption("the two moments have no partition in common, so there is no law to check")
    splits = before.plan_by_partition(), after.plan_by_partition()
    return [
        LawTask(
            before=one,
            after=other,
            splits_before=splits[0].get(one.topic_partition, ()),
            splits_after=splits[1].get(other.topic_partition, ()),
            taken_before_ms=before.view.taken_at_ms,
            taken_after_ms=after.view.taken_at_ms,
        )
        for one, other in pairs
    ]


def check_partition(task: LawTask) -> tuple[int, Findings]:
    """Return how many records were compared, and the breaches of the laws."""
    if task.before.topic_id and task.after.topic_id not in {"", task.before.topic_id}:
        raise PipelineError(
            f"topic {task.after.topic} was deleted and made again between the two moments"
        )
    before = _rows(task.before, task.splits_before)
    after = _rows(task.after, task.splits_after)

    def may_expire(offset: int) -> bool:
        return horizon_of(task.before, offset, task.taken_before_ms) <= task.taken_after_ms

    name = str(task.after.topic_partition)
    return before.table.num_rows, check_laws(before, after, may_expire, name)


def horizon_of(partition: PinnedPartition, offset: int, taken_at_ms: int) -> int:
    """Return when a tombstone may go at the earliest: its horizon, or the one of a pass made now.

    The second is a lower bound, as of the moment of the partition.
    """
    base = max(each.base_offset for each in partition.segments if each.base_offset <= offset)
    located = open_segment(Path(partition.folder), base, OpenFiles()).locate(offset)
    if located is not None and located.header.has_delete_horizon:
        return located.header.base_timestamp
    return taken_at_ms + partition.delete_retention_ms


def _rows(partition: PinnedPartition, splits: Sequence[Split]) -> Rows:
    batches = [
        batch
        for split in sorted(splits, key=lambda split: split.start_offset)
        for batch in scan(split, COLUMNS)
    ]
    return Rows(
        table=pa.Table.from_batches(batches, schema=arrow_schema(COLUMNS)),
        start=partition.log_start_offset,
        end=partition.end_offset,
        first_dirty_offset=partition.first_dirty_offset,
    )


def _of_archive(options: Mapping[str, str], folder: str) -> ReadOptions:
    """Return the same topics, out of an archive."""
    kept = ("subscribe", "subscribepattern", "assign")
    names = {name: value for name, value in options.items() if name.lower() in kept}
    return committed({**names, "transport": "archive", "archive": folder})


def _clean(control: Control, moment: Moment, clock: Clock) -> None:
    """Ask the broker to clean the compacted topics, and wait until it has."""
    for topic in {each.topic for each in moment.view.partitions if each.is_compacted}:
        name = quote(topic)
        control.ask("POST", f"/v1/clean?topic={name}&force=1")
        deadline = clock.monotonic() + _CLEAN_SECONDS
        while True:
            answer = control.ask("GET", f"/v1/explain?topic={name}")
            if all(facts["rule"] not in _UNFINISHED for facts in answer["partitions"]):
                break
            if clock.monotonic() > deadline:
                raise PipelineError(f"the cleaner did not come to {topic} in {_CLEAN_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
