"""Checks compacted folders at rest by the rules of compaction and by the cleaner's receipts.

It checks that each key occurs once below the checkpoint, with its newest value, that offsets
ascend, and that files are as the last receipt says. If the input files of the last pass still
exist as ``.deleted``, it also checks that every record that is left equals its original and that no
last value is missing. It never shows keys. Kafka has no such check.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.cleaner.explaining.explanation import moment
from siltstone.cleaner.history.receipts import Receipt, find_receipt
from siltstone.cleaner.one_pass.stats import text_of
from siltstone.protocol.core import compaction
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.compression import UNLIMITED
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.check import CheckedBatch, check_log
from siltstone.storage.topic_partition import TopicPartition, parse_folder

MAX_FAULTS = 20
"""How many faults of a partition are listed; the others are only counted."""


@dataclass(slots=True)
class Report:
    """The result for one partition folder."""

    topic_partition: TopicPartition
    records: int = 0
    keys: int = 0  # the number of keys below the checkpoint
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, sentence: str) -> None:
        """Note a fault."""
        self.faults.append(sentence)


def verify_partition(
    path: Path, checkpoint: int | None, events: Iterable[dict[str, Any]], *, recovery_point: int = 0
) -> Report:
    """Verify a partition folder that no broker has open. Reads the whole folder; blocks.

    ``events`` are those of this partition in the cleaner's history, the oldest first. Everything
    below ``recovery_point`` was fsynced.
    """
    report = Report(parse_folder(path.name).topic_partition)
    survivors = _verify_log(path, checkpoint, recovery_point, report)
    receipt = find_receipt(events)
    if receipt is None:
        report.notes.append("the history has no receipt of it")
        return report
    is_whole = _verify_outputs(path, receipt, report)
    if is_whole:
        _verify_keys(receipt, survivors, report)
        _verify_inputs(path, receipt, report)
    return report


def _verify_log(
    path: Path, checkpoint: int | None, recovery_point: int, report: Report
) -> dict[bytes, int]:
    """Check every batch and that a key has one record; return the offset of each key."""
    offsets: dict[bytes, int] = {}
    expected = 0
    logs = _logs(path)
    for log in logs:
        for batch in check_log(log, report.fault):
            if batch.header.base_offset < expected:
                report.fault(
                    f"{log.name} position {batch.position}: offset {batch.header.base_offset} is "
                    f"not above {expected - 1}"
                )
            expected = max(expected, batch.header.next_offset)
            for record in _records(batch, report):
                report.records += 1
                if checkpoint is None or record.offset >= checkpoint:
                    continue
                if record.key is None:
                    report.fault(f"offset {record.offset}, below the checkpoint, has no key")
                    continue
                before = offsets.setdefault(record.key, record.offset)
                if before != record.offset:
                    report.fault(
                        f"one key is below the checkpoint {checkpoint} twice, at offsets {before} "
                        f"and {record.offset}"
                    )
    end = max(expected, int(logs[-1].stem) if logs else 0)
    if end < recovery_point:
        report.fault(f"it ends at offset {end}, but was on the disk up to {recovery_point}")
    if checkpoint is not None and checkpoint > expected:
        report.notes.append(f"the checkpoint {checkpoint} is above the end, {expected}")
    report.keys = len(offsets)
    return offsets


def _verify_outputs(path: Path, receipt: Receipt, report: Report) -> bool:
    """Check the files that the last pass wrote; true if all of them are unchanged."""
    is_whole = True
    when = moment(receipt.started_ms)
    start = _find_start(path)
    for output in receipt.outputs:
        file = path / output.name
        if not files.exists(file):
            is_whole = False
            if receipt.is_last and int(Path(output.name).stem) >= start:
                report.fault(f"{output.name} of the receipt of {when} is missing")
            else:
                report.notes.append(f"{output.name} of the receipt of {when} has gone: retention")
        elif not output.matches(file):
            is_whole = False
            sentence = f"{output.name} is not what the receipt of {when} says"
            if receipt.is_last:
                report.fault(sentence)
            else:
                report.notes.append(f"{sentence}: a later pass was cut short")
    if is_whole:
        report.notes.append(f"files that are as the receipt of {when} says: {len(receipt.outputs)}")
    return is_whole


def _find_start(path: Path) -> int:
    """Return the log start offset: records below it may be gone. Blocks.

    It is the start offset of the first leader epoch, which rises before a segment is deleted.
    """
    entries = LeaderEpochs.load(path).entries
    return entries[0].start_offset if entries else sys.maxsize


def _verify_keys(receipt: Receipt, survivors: dict[bytes, int], report: Report) -> None:
    """Check the digest of the set of keys that the last pass left."""
    keys = [key for key, offset in survivors.items() if offset < receipt.end_offset]
    if text_of(compaction.digest_of(keys)) != receipt.key_digest:
        report.fault(
            f"the keys below offset {receipt.end_offset} are not those of the receipt of "
            f"{moment(receipt.started_ms)}"
        )


def _verify_inputs(path: Path, receipt: Receipt, report: Report) -> None:
    """Compare the outcome of the last pass with its input files, as far as these exist."""
    old = [(each, path / f"{each.name}{files.DELETED}") for each in receipt.inputs]
    found = [file for each, file in old if files.exists(file) and each.matches(file)]
    if not found:
        return
    aborted = _aborted(path)
    last: dict[bytes | None, tuple[int, bool]] = {}  # key -> offset, and whether it has a value
    there: dict[bytes | None, int] = {}  # key -> offset of the survivor

    def inputs() -> Iterator[Record]:
        for record in _below(receipt, found, aborted, report):
            last[record.key] = record.offset, record.value is not None
            yield record

    def survivors() -> Iterator[Record]:
        outputs = [path / each.name for each in receipt.outputs]
        for record in _below(receipt, outputs, aborted, report):
            there[record.key] = record.offset
            yield record

    is_complete = len(found) == len(old)
    kept = _compare(inputs(), survivors(), report, is_complete=is_complete)
    if is_complete:
        _verify_last(last, there, report)
    report.notes.append(
        f"{kept} survivors are as they were in {len(found)} of {len(old)} replaced files"
    )


def _compare(
    inputs: Iterator[Record], survivors: Iterator[Record], report: Report, *, is_complete: bool
) -> int:
    """Compare each survivor with the record at its offset; return how many were found."""
    kept = 0
    survivor = next(survivors, None)
    for record in inputs:
        while survivor is not None and survivor.offset < record.offset:
            _note_stranger(survivor, report, is_complete=is_complete)
            survivor = next(survivors, None)
        if survivor is not None and survivor.offset == record.offset:
            kept += 1
            if survivor != record:
                report.fault(f"the record at offset {record.offset} was altered")
            survivor = next(survivors, None)
    for stranger in itertools.chain([survivor] if survivor is not None else [], survivors):
        _note_stranger(stranger, report, is_complete=is_complete)
    return kept


def _note_stranger(survivor: Record, report: Report, *, is_complete: bool) -> None:
    """Note a survivor that no input file has; it is a fault only if all input files exist."""
    if is_complete:
        report.fault(f"offset {survivor.offset} is in no file that it was made of")


def _verify_last(
    last: dict[bytes | None, tuple[int, bool]], there: dict[bytes | None, int], report: Report
) -> None:
    """Check that each key's last record is kept, unless it was a tombstone."""
    for key, (offset, has_value) in last.items():
        if key is None:
            continue
        survivor = there.get(key)
        if survivor is None and has_value:
            report.fault(f"the last value of a key, at offset {offset}, is missing")
        elif survivor is not None and survivor != offset:
            report.fault(f"offset {survivor} is not the newest of its key, which was at {offset}")


def _below(
    receipt: Receipt, logs: Iterable[Path], aborted: list[AbortedTransaction], report: Report
) -> Iterator[Record]:
    """Yield the data records below the end of a pass, without aborted ones."""
    for log in logs:
        for batch in check_log(log, report.fault):
            if _is_aborted(batch.header, aborted):
                continue
            for record in _records(batch, report):
                if record.offset < receipt.end_offset:
                    yield record


def _is_aborted(header: BatchHeader, aborted: list[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )


def _aborted(path: Path) -> list[AbortedTransaction]:
    """Return the aborted transactions of a folder, including those of replaced segments."""
    names = sorted(name for name in files.list_names(path) if files.TRANSACTION_INDEX in name)
    return [entry for name in names for entry in transaction_index.read(path / name)]


def _logs(path: Path) -> list[Path]:
    names = [(files.parse_name(each), path / each) for each in files.list_names(path)]
    return sorted(
        each for name, each in names if name and name.kind == files.LOG and not name.suffix
    )


def _records(batch: CheckedBatch, report: Report) -> Iterator[Record]:
    """Yield the data records of a batch."""
    if batch.header.is_control:
        return
    try:
        yield from iterate_records(batch.data, UNLIMITED)
    except (CorruptMessage, InvalidRecord) as error:
        report.fault(f"{batch.path.name} position {batch.position}: {error}")
