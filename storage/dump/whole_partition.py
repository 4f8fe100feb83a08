"""Checks all files of a partition folder at rest against each other (``siltstone verify``).

The batches are read by `storage.segment.check`, which shares no code with the core that wrote them.
A segment that the next start scans, after a kill, may have an incomplete end and wrong indexes:
that is only noted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from siltstone.protocol.errors import InvalidRecord
from siltstone.protocol.names import uuid_text
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.dump.any_file import find_faults
from siltstone.storage.dump.indexes import IndexLines
from siltstone.storage.dump.line import Fault, Line
from siltstone.storage.files import SegmentName
from siltstone.storage.log.epochs import UNDEFINED, LeaderEpochs
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.markers import MarkerKind, read_marker
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment import check
from siltstone.storage.segment.check import CheckedBatch
from siltstone.storage.segment.damage import LOG_REMEDY
from siltstone.storage.topic_partition import TopicPartition

MAX_SENTENCES: Final = 1000
"""How many faults, and how many notes, a report keeps; the others are only counted."""

UNREADABLE: Final = "what cannot be read"

REMEDIES: Final = {
    UNREADABLE: "run this as the user whose it is; else check the disk",
    files.LOG: LOG_REMEDY,
    files.INDEX: "delete the file: the next start builds it again from the .log",
    files.TIME_INDEX: "delete the file: the next start builds it again from the .log",
    files.TRANSACTION_INDEX: "delete the file and the .index of the segment: the next start builds "
    "both again from the .log",
    files.SNAPSHOT: "delete the file: the next start reads an older one and the batches after it",
    files.LEADER_EPOCHS: "delete the file: the next start takes the epochs from the batches",
    files.PARTITION_METADATA: "delete the file if the folder is the topic's: the next start writes "
    "it again; else move the folder back to where it came from",
    files.RECOVERY_POINTS: "delete the file: the next start scans all logs of the directory",
    files.LOG_START_OFFSETS: "delete the file: logs then begin at their first segment",
    files.HIGH_WATERMARKS: "delete the file: a high watermark is the end of its log",
    files.CLEANER_OFFSETS: "delete the file: the next passes begin at the start of their logs",
    files.META_PROPERTIES: "take the file from a backup",
}
"""The remedy for a fault of each kind of file, and of no kind if it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts about a partition that are not in its folder.

    Everything below ``recovery_point`` was fsynced. After a clean stop no segment is scanned, and
    the log has all offsets below ``high_watermark``.
    ``has_gaps`` tells that compaction may have removed records.
    """

    recovery_point: int = 0
    high_watermark: int = 0
    log_start_offset: int | None = None
    is_clean: bool = False
    has_gaps: bool = True
    topic_id: UUID | None = None


@dataclass(slots=True)
class Report:
    """The result for one partition folder."""

    topic_partition: TopicPartition
    records: int = 0
    keys: int = 0  # the number of keys below the checkpoint
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0  # the number of faults
    kinds: set[str] = field(default_factory=set)  # kinds of the faulty files: see `REMEDIES`

    def fault(self, sentence: str, kind: str = files.LOG) -> None:
        """Note a fault."""
        self.count += 1
        self.kinds.add(kind)
        if len(self.faults) < MAX_SENTENCES:
            self.faults.append(sentence)

    def note(self, sentence: str, _kind: str = "") -> None:
        """Note something that is not a fault."""
        if len(self.notes) < MAX_SENTENCES:
            self.notes.append(sentence)


class PartitionCheck:
    """One walk over a partition folder that no broker has open; `end` is known after it."""

    def __init__(self, path: Path, known: Known, report: Report) -> None:
        self.end = 0
        self._path = path
        self._known = known
        self._report = report
        self._tell: Callable[[str, str], None] = report.fault  # reports for the present segment
        self._is_gapless = not known.has_gaps  # until something is damaged
        self._transactions = _Transactions()
        self._epochs = LeaderEpochs(path)
        self._has_odd_epoch = False
        self._start = 0

    def batches(self) -> Iterator[CheckedBatch]:
        """Yield the sound batches, and check everything on the way. Blocks."""
        self._check_small_files()
        logs = find_logs(self._path)
        bases = [int(log.stem) for log in logs]
        self.end = self._transactions.start = bases[0] if bases else 0
        self._start = self._known.log_start_offset or self.end
        # strict=False: without a log there is still one end.
        for log, base, following in zip(logs, bases, [*bases[1:], None], strict=False):
            is_scanned = self._is_scanned(following)
            self._tell = self._report.note if is_scanned else self._report.fault
            try:
                yield from self._check_segment(log, base, following, is_scanned=is_scanned)
            except OSError as error:
                self._is_gapless = False
                self._report.fault(f"{log.name}: cannot be read: {error.strerror}", UNREADABLE)
                self.end = max(self.end, following or self._known.recovery_point, self._start)
        self._tell = self._report.note if self._is_scanned(None) else self._report.fault
        kept = self._known.recovery_point
        if self._known.is_clean and files.LOG not in self._report.kinds:
            kept = max(kept, self._known.high_watermark)
        if self.end < kept:
            self._report.fault(f"it ends at offset {self.end}, but was on the disk up to {kept}")
        stopped_at = self._known.recovery_point + 1  # at most: see `storage.checkpointed`
        if self._known.is_clean and 1 < stopped_at < self.end:
            self._report.fault(
                f"it ends at offset {self.end}, but ended at {stopped_at} when the broker was "
                "stopped"
            )
        if self.end < self._start:
            self._tell(
                f"{files.LOG_START_OFFSETS}: it begins at {self._start}, but ends at {self.end}",
                files.LOG_START_OFFSETS,
            )

    def _is_scanned(self, end: int | None) -> bool:
        """Tell whether the next start scans a segment that ends at an offset."""
        return not self._known.is_clean and (end is None or end > self._known.recovery_point)

    def _check_small_files(self) -> None:
        report = self._report
        for name in sorted(files.list_names(self._path)):
            kind, parsed = name, files.parse_name(name)
            if parsed is not None and parsed.kind == files.SNAPSHOT and not parsed.suffix:
                kind = files.SNAPSHOT
            elif name not in {files.LEADER_EPOCHS, files.PARTITION_METADATA}:
                continue
            is_fault = parsed is None or not self._is_scanned(parsed.base_offset)
            for sentence in find_faults(self._path / name):
                (report.fault if is_fault else report.note)(sentence, kind)
        try:
            self._epochs = LeaderEpochs.load(self._path)
            metadata = PartitionMetadata.read(self._path)
        except (MalformedCheckpoint, OSError):
            return  # it is reported already
        known = self._known.topic_id
        if metadata is not None and known is not None and metadata.topic_id != known:
            report.fault(
                f"{files.PARTITION_METADATA}: the folder belongs to topic id "
                f"{uuid_text(metadata.topic_id)}, but the topic has {uuid_text(known)}",
                files.PARTITION_METADATA,
            )

    def _check_segment(
        self, log: Path, base_offset: int, following: int | None, *, is_scanned: bool
    ) -> Iterator[CheckedBatch]:
        indexes = {} if is_scanned else self._open_indexes(log, base_offset)
        self._check_gap(check.place_of(log, 0), base_offset)
        self.end = max(self.end, base_offset)
        transactions = log.with_suffix(files.TRANSACTION_INDEX)
        is_known = files.TRANSACTION_INDEX in indexes or not files.exists(transactions)
        self._transactions.begin(log if is_known and not is_scanned else None)
        end, latest = 0, UNDEFINED
        torn = self._tell_torn if following is None else self._tell_damage
        for batch in check.check_log(log, self._tell_damage, torn):
            header = batch.header
            end = batch.position + header.size
            for kind, lines in indexes.items():
                self._tell_lines(log, kind, lines.see(batch.position, header))
            if not batch.is_sound:
                continue
            for sentence in check.find_faults(header, self.end):
                self._report.fault(f"{batch.place}: {sentence}")
            self._check_gap(batch.place, header.base_offset)
            self.end = max(self.end, header.next_offset)
            latest = max(latest, header.max_timestamp)
            self._check_epoch(batch)
            self._check_transaction(batch)
            if not header.is_control:
                self._report.records += header.count
            yield batch
        if end == files.find_size(str(log)):  # otherwise later batches were not read
            for kind, lines in indexes.items():
                self._tell_lines(log, kind, lines.end())
            times = indexes.get(files.TIME_INDEX)
            if times is not None and latest > (times.last or (UNDEFINED, 0))[0]:
                name = f"{log.stem}{files.TIME_INDEX}"
                self._tell(f"{name}: the largest timestamp, {latest}, is missing", files.TIME_INDEX)

    def _check_gap(self, place: str, offset: int) -> None:
        if self._is_gapless and offset > self.end:
            self._tell_damage(f"{place}: offsets {self.end} to {offset - 1} are missing")

    def _tell_damage(self, sentence: str) -> None:
        self._is_gapless = False
        self._report.fault(sentence)

    def _tell_torn(self, sentence: str) -> None:
        self._is_gapless = False
        self._tell(sentence, files.LOG)

    def _open_indexes(self, log: Path, base_offset: int) -> dict[str, IndexLines]:
        indexes = {}
        for kind in files.SEGMENT_KINDS[1:]:
            path = log.with_suffix(kind)
            try:
                indexes[kind] = IndexLines(path, SegmentName(base_offset, kind, ""))
            except FileNotFoundError:
                if kind != files.TRANSACTION_INDEX:
                    self._report.note(f"{path.name} is missing: the next start builds it")
            except OSError as error:
                self._report.fault(f"{path.name}: cannot be read: {error.strerror}", UNREADABLE)
        return indexes

    def _tell_lines(self, log: Path, kind: str, lines: Iterator[Line]) -> None:
        for line in lines:
            if isinstance(line, Fault):
                self._tell(f"{log.stem}{kind}: {line.text}", kind)

    def _check_epoch(self, batch: CheckedBatch) -> None:
        """Compare the epoch of a batch with the file of epochs; report the first difference."""
        header = batch.header
        if header.leader_epoch < UNDEFINED:
            self._report.fault(f"{batch.place}: the leader epoch is {header.leader_epoch}")
        if header.leader_epoch < 0 or self._has_odd_epoch or not self._epochs.entries:
            return
        known = self._epochs.epoch_of(header.last_offset)
        if known in {UNDEFINED, header.leader_epoch}:  # epochs below the log start are dropped
            return
        self._has_odd_epoch = True
        self._tell(
            f"{batch.place}: the batch is of leader epoch {header.leader_epoch}, but "
            f"{files.LEADER_EPOCHS} has epoch {known} for offset {header.last_offset}",
            files.LEADER_EPOCHS,
        )

    def _check_transaction(self, batch: CheckedBatch) -> None:
        if not batch.header.is_transactional or not self._is_gapless:
            return
        try:
            fault = self._transactions.see(batch)
        except InvalidRecord as error:
            self._report.fault(f"{batch.place}: the marker cannot be read: {error}")
            return
        if fault is not None:
            name = f"{batch.path.stem}{files.TRANSACTION_INDEX}"
            self._tell(f"{name}: {fault}", files.TRANSACTION_INDEX)


class _Transactions:
    """Compares the transactions of a log that was never compacted with its transaction indexes."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset
        self.start = 0  # the first offset of the log
        self._entries: dict[int, AbortedTransaction] | None = None  # of this segment

    def begin(self, log: Path | None) -> None:
        """Begin with a segment; None for its index if that cannot be used."""
        self._entries = None
        if log is not None:
            entries = transaction_index.read(log.with_suffix(files.TRANSACTION_INDEX))
            self._entries = {entry.last_offset: entry for entry in entries}

    def see(self, batch: CheckedBatch) -> str | None:
        """Note a batch of a transaction; for a marker return the fault of its index entry."""
        header = batch.header
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return None
        marker = read_marker(batch.data)
        first = self._open.pop(header.producer_id, None)
        if self._entries is None or marker is None or marker.kind is not MarkerKind.ABORT:
            return None
        return self._judge(header, first, self._entries.get(header.last_offset))

    def _judge(
        self, header: BatchHeader, first: int | None, entry: AbortedTransaction | None
    ) -> str | None:
        """Compare an abort with its entry, unless the transaction began before the log."""
        what = f"the transaction of producer {header.producer_id} aborted at {header.last_offset}"
        if entry is None:
            return None if first is None else f"{what} is missing"
        if entry.first_offset != first and entry.first_offset >= self.start:
            return f"{what} does not begin at {entry.first_offset}"
        stable = min(self._open.values(), default=header.next_offset)
        if entry.last_stable_offset != stable and entry.last_stable_offset >= self.start:
            return f"{what} does not leave {entry.last_stable_offset} as the last stable offset"
        return None


def find_logs(path: Path) -> list[Path]:
    """Return the ``.log`` files of a folder, the oldest first."""
    names = [(files.parse_name(each), path / each) for each in files.list_names(path)]
    return sorted(
        each for name, each in names if name and name.kind == files.LOG and not name.suffix
    )
