"""Checks the files of a partition, by the code of ``siltstone verify``.

It shares no code with what wrote the files. Of the segment that a live broker writes, or whose end
a kill has left, indexes may be behind: they are not checked there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from siltstone.pipeline.audit.findings import Findings, Kind
from siltstone.pipeline.planning.manifest import PinnedPartition
from siltstone.pipeline.stores import join
from siltstone.storage import files
from siltstone.storage.dump.whole_partition import Known, PartitionCheck, Report


@dataclass(slots=True, kw_only=True)
class FilesReport:
    """The faults in the files of a partition, and what was read."""

    findings: Findings = field(default_factory=Findings)
    batches: int = 0
    records: int = 0


@dataclass(slots=True)
class _Noting(Report):
    """Notes faults by the kind of their file."""

    findings: Findings = field(default_factory=Findings)

    def fault(self, sentence: str, kind: str = files.LOG) -> None:
        """Note a fault."""
        self.findings.add(kind, f"{self.topic_partition}: {sentence}")


def check_files(partition: PinnedPartition) -> FilesReport:
    """Check all files of a partition's folder. Blocks."""
    report = FilesReport()
    noting = _Noting(partition.topic_partition, findings=report.findings)
    folder = Path(partition.folder)
    last = partition.segments[-1] if partition.segments else None
    is_open = last is not None and (
        f"/{files.PINS}/" in partition.folder
        or files.find_size(str(folder / last.file_name(files.LOG))) != last.size
    )
    known = Known(
        recovery_point=last.base_offset if last is not None and is_open else 0,
        log_start_offset=partition.log_start_offset,
        is_clean=not is_open,
        has_gaps=partition.is_compacted or partition.first_dirty_offset > 0,
    )
    for _ in PartitionCheck(folder, known, noting).batches():
        report.batches += 1
    report.records = noting.records
    for kind, sentence in _find_losses(partition):
        report.findings.add(kind, sentence)
    return report


def _find_losses(partition: PinnedPartition) -> Iterator[tuple[Kind, str]]:
    """Yield what is known about the partition beside its files."""
    if partition.first_dirty_offset > partition.end_offset:
        checkpoint = f"the cleaner's checkpoint of {partition.topic_partition}"
        ends = f"{partition.first_dirty_offset}, above the end {partition.end_offset}"
        yield Kind.CHECKPOINT, f"{checkpoint} is {ends}"
    if partition.lost_end:
        yield Kind.CUT_END, partition.lost_end
    orphans = (f"{join(partition.folder, each)} has no {files.LOG}" for each in partition.orphans)
    gone = (
        f"{join(partition.folder, each.file_name(files.LOG))} is gone"
        for each in partition.segments
        if not files.exists(Path(partition.folder) / each.file_name(files.LOG))
    )
    for sentence in (*orphans, *gone):
        yield Kind.MISSING_FILE, sentence
