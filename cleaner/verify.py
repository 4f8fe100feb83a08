"""Checks partition folders at rest: their files, the rules of compaction, the cleaner's receipts.

Of a compacted log it checks that each key occurs once below the checkpoint, with its newest value,
and that files are as the last receipt says. If the input files of the last pass still exist as
``.deleted``, it also checks that every record that is left equals its original and that no last
value is missing. It never shows keys. Kafka has no such check.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from siltstone.cleaner.explaining.explanation import moment
from siltstone.cleaner.history.receipts import Receipt, find_receipt
from siltstone.cleaner.one_pass.stats import text_of
from siltstone.protocol.core import compaction
from siltstone.protocol.errors import CorruptMessage, InvalidRecord, ProtocolError
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.compression import UNLIMITED
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage import files
from siltstone.storage.dump.whole_partition import Known, PartitionCheck, Report
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.check import CheckedBatch, check_log
from siltstone.storage.topic_partition import parse_folder

_UNKNOWN: Final = Known()

MAX_FAULTS = 20
"""How many faults of a partition are printed; the others are only counted."""

RecordCheck: TypeAlias = Callable[[bytes, bytes | None], object]
"""Reads a record of an internal topic; raises ProtocolError or ValueError if that cannot be."""


def verify_partition(
    path: Path,
    checkpoint: int | None,
    events: Iterable[dict[str, Any]],
    known: Known = _UNKNOWN,
    check_record: RecordCheck | None = None,
    report: Report | None = None,
) -> Report:
    """Verify a partition folder that no broker has open. Reads the whole folder; blocks.

    ``report`` gets the result; after an error it has what was found before.

    ``events`` are those of this partition in the cleaner's history, the oldest first. Batches are
    opened if the partition has a checkpoint or ``check_record``.
    """
    report = report or Report(parse_folder(path.name).topic_partition)
    survivors = _verify_log(path, checkpoint, known, check_record, report)
    receipt = find_receipt(events)
    if receipt is None:
        if checkpoint is not None:
            report.notes.append("the history has no receipt of it")
        return report
    is_whole = _verify_outputs(path, receipt, report)
    if is_whole:
        _verify_keys(receipt, survivors, report)
        _verify_inputs(path, receipt, report)
    return report


def _verify_log(
    path: Path,
    checkpoint: int | None,
    known: Known,
    check_record: RecordCheck | None,
    report: Report,
) -> dict[bytes, int]:
    """Check all files and that a key has one record; return the offset of each key."""
    offsets: dict[bytes, int] = {}
    check = PartitionCheck(path, known, report)
    for batch in check.batches():
        if checkpoint is None and check_record is None:
            continue
        for record in _records(batch, report):
            if check_record is not None:
                _verify_record(record, check_record, report)
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
    if checkpoint is not None and checkpoint > check.end:
        report.notes.append(f"the checkpoint {checkpoint} is above the end, {check.end}")
    report.keys = len(offsets)
    return offsets


def _verify_record(record: Record, check_record: RecordCheck, report: Report) -> None:
    try:
        check_record(record.key or b"", record.value)
    except (ProtocolError, ValueError) as error:
        report.fault(f"the coordinator cannot read the record at offset {record.offset}: {error}")


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
    there: dict[bytes | None, int] = {}  # key -> offset of the record that is left

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
    """Compare each record that is left with its original; return how many originals were found."""
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
    """Note a record that no input file has; this is a fault only if all input files exist."""
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
            if not batch.is_sound or _is_aborted(batch.header, aborted):
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


def _records(batch: CheckedBatch, report: Report) -> Iterator[Record]:
    """Yield the data records of a batch."""
    if batch.header.is_control:
        return
    try:
        yield from iterate_records(batch.data, UNLIMITED)
    except (CorruptMessage, InvalidRecord) as error:
        report.fault(f"{batch.place}: {error}")
