"""An audit finds every planted fault, and nothing in what the cleaner really does."""

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.pipeline.audit.files import check_files
from siltstone.pipeline.audit.findings import Findings, Kind
from siltstone.pipeline.command.cli import main
from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.audit import (
    AuditReport,
    AuditSpec,
    LawTask,
    audit,
    check_partition,
)
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.archive_view import ArchiveView
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.planning.plan import plan_splits
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from siltstone.storage.topic_partition import TopicPartition
from tests.support.archives import Archive, damage, positions
from tests.support.passes import CompactedFolder

T = TopicPartition("t", 0)
NOW = 1_700_000_000_000
Rows = list[Record]


def row(offset: int, key: bytes | None, value: bytes | None) -> Record:
    """Return a record."""
    return Record(offset, NOW + offset, key, value)


BEFORE = [
    row(0, b"a", b"1"),
    row(1, b"b", b"1"),
    row(2, b"a", b"2"),
    row(3, b"c", b"1"),
    row(4, b"c", None),
    row(5, b"d", b"1"),
    row(6, b"e", b"1"),
    row(7, b"e", b"2"),
]
AFTER = [BEFORE[1], BEFORE[2], BEFORE[4], BEFORE[5], BEFORE[7], row(8, b"f", b"1")]


def put(root: Path, records: Rows, checkpoint: int = 8) -> Path:
    """Write records with their offsets, one batch each, as a compacted partition."""
    archive = Archive(root)
    archive.fill_exact(build_batch([each], base_offset=each.offset) for each in records)
    OffsetCheckpoint(root, files.CLEANER_OFFSETS).write({T: checkpoint})
    return root


def look(after: Path, before: Path | None = None) -> AuditReport:
    """Audit an archive, against another one if there is one."""
    spec = AuditSpec(before="" if before is None else str(before))
    return audit(LocalEngine(1), {"subscribe": "t", "archive": str(after)}, spec)


def kinds(report: AuditReport) -> set[str]:
    """Return what was found."""
    return {kind for findings in report.findings.values() for kind in findings.counts}


def test_right_cleaning(tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong."""
    report = look(put(tmp_path / "after", AFTER), put(tmp_path / "before", BEFORE, 0))

    assert list(report.lines())[:-1] == []
    assert report.faults == 0
    assert report.records == len(AFTER)
    assert report.keys_compared == len(BEFORE)


@pytest.mark.parametrize(
    ("kind", "plant"),
    [
        (Kind.LOST_LATEST, lambda rows: [each for each in rows if each.key != b"d"]),
        (Kind.LOST_LATEST, lambda rows: [BEFORE[6] if each.key == b"e" else each for each in rows]),
        (Kind.DOUBLED_KEY, lambda rows: [BEFORE[0], *rows]),
        (Kind.MOVED_OFFSET, lambda rows: [row(0, b"b", b"1"), *rows[1:]]),
        (Kind.CHANGED_RECORD, lambda rows: [row(1, b"b", b"other"), *rows[1:]]),
        (Kind.CHANGED_RECORD, lambda rows: [rows[0]._replace(timestamp=5), *rows[1:]]),
        (Kind.CHANGED_RECORD, lambda rows: [rows[0]._replace(headers=((b"h", b"x"),)), *rows[1:]]),
        (
            Kind.RESURRECTED_KEY,
            lambda rows: [BEFORE[3] if each.key == b"c" else each for each in rows],
        ),
        (Kind.EARLY_TOMBSTONE, lambda rows: [each for each in rows if each.key != b"c"]),
    ],
)
def test_broken_laws(tmp_path: Path, kind: Kind, plant: Callable[[Rows], Rows]) -> None:
    """Each law that a cleaning breaks is told, with the offset."""
    planted = sorted(plant(AFTER), key=lambda each: each.offset)

    report = look(put(tmp_path / "after", planted), put(tmp_path / "before", BEFORE, 0))

    assert kind in kinds(report)
    assert all(
        finding.offset >= 0 for findings in report.findings.values() for finding in findings.listed
    )


def test_retention_takes_from_the_front(tmp_path: Path) -> None:
    """Records below the log start offset are gone by right."""
    after = put(tmp_path / "after", [each for each in AFTER if each.offset >= 5])
    OffsetCheckpoint(after, files.LOG_START_OFFSETS).write({T: 5})

    assert look(after, put(tmp_path / "before", BEFORE, 0)).faults == 0


def flip(root: Path) -> None:
    """Damage a record."""
    damage(root / "t-0" / files.segment_file_name(0), 64)


def cut(root: Path) -> None:
    """Have a batch say that it is shorter than a header."""
    log = root / "t-0" / files.segment_file_name(0)
    damage(log, positions(root / "t-0")[1] + 11, 3)


def move_entry(root: Path) -> None:
    """Have an index entry point between two batches."""
    path = root / "t-0" / files.segment_file_name(0, files.INDEX)
    relative, position = OFFSET_ENTRY.unpack(path.read_bytes()[: OFFSET_ENTRY.size])
    rest = path.read_bytes()[OFFSET_ENTRY.size :]
    path.write_bytes(OFFSET_ENTRY.pack(relative, position + 3) + rest)


def change_entry(root: Path) -> None:
    """Have an index entry name an offset that is not its batch's."""
    path = root / "t-0" / files.segment_file_name(0, files.INDEX)
    relative, position = OFFSET_ENTRY.unpack(path.read_bytes()[: OFFSET_ENTRY.size])
    rest = path.read_bytes()[OFFSET_ENTRY.size :]
    path.write_bytes(OFFSET_ENTRY.pack(relative - 1, position) + rest)


def change_time(root: Path) -> None:
    """Have a time index entry say another time."""
    path = root / "t-0" / files.segment_file_name(0, files.TIME_INDEX)
    data = path.read_bytes()
    timestamp, relative = TIME_ENTRY.unpack(data[-TIME_ENTRY.size :])
    path.write_bytes(data[: -TIME_ENTRY.size] + TIME_ENTRY.pack(timestamp + 7, relative))


def rename(root: Path) -> None:
    """Call a segment by an offset that is above its first one."""
    for kind in (files.LOG, files.INDEX, files.TIME_INDEX):
        path = root / "t-0" / files.segment_file_name(0, kind)
        path.rename(path.with_name(files.segment_file_name(2, kind)))


def overlap(root: Path) -> None:
    """Have a second segment begin within the first."""
    log = root / "t-0" / files.segment_file_name(0)
    place = positions(root / "t-0")[3]
    (root / "t-0" / files.segment_file_name(4)).write_bytes(log.read_bytes()[place:])


def raise_checkpoint(root: Path) -> None:
    """Have the cleaner be further than the log."""
    OffsetCheckpoint(root, files.CLEANER_OFFSETS).write({T: 99})


@pytest.mark.parametrize(
    ("kind", "plant"),
    [
        (files.LOG, flip),
        (files.LOG, cut),
        (files.INDEX, move_entry),
        (files.INDEX, change_entry),
        (files.TIME_INDEX, change_time),
        (files.LOG, rename),
        (files.LOG, overlap),
        (Kind.CHECKPOINT, raise_checkpoint),
    ],
)
def test_damaged_files(tmp_path: Path, kind: str, plant: Callable[[Path], None]) -> None:
    """A fault of a file by itself is found, and the file named."""
    root = put(tmp_path / "log", AFTER)
    assert look(root).faults == 0
    plant(root)

    report = look(root)

    assert kind in kinds(report)


def test_gone_file(tmp_path: Path) -> None:
    """A segment that vanishes between planning and reading is a finding, not a crash."""
    root = put(tmp_path / "log", AFTER)
    partition = ArchiveView(str(root)).view(T)
    (root / "t-0" / files.segment_file_name(0)).unlink()

    assert set(check_files(partition).findings.counts) == {Kind.MISSING_FILE}


def test_nothing_in_common(tmp_path: Path) -> None:
    """Two moments without a common partition are refused."""
    other = Archive(tmp_path / "other")
    other.fill_plain(10, partition=1)

    with pytest.raises(BadOption, match="no partition in common"):
        look(put(tmp_path / "after", AFTER), other.root)


def test_report_and_exit_code(tmp_path: Path) -> None:
    """The command writes the report as JSON and tells by its exit code."""
    root = put(tmp_path / "log", AFTER)
    arguments = ["audit", "t", "--archive", str(root), "--engine", "local", "--cores", "1"]
    assert main([*arguments, "--json", str(tmp_path / "report.json")]) == 0
    flip(root)

    assert main([*arguments, "--json", str(tmp_path / "report.json")]) == 1

    report = json.loads((tmp_path / "report.json").read_text())
    assert report["faults"] == 1
    assert report["partitions"][0]["faults"][0]["kind"] == ".log"


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit",),
        ("snapshot", "t", "--to", "paper:x"),
        ("snapshot", "t", "--to", "parquet:x", "--option", "startingOffset=earliest"),
        ("export", "t", "--to", "parquet:x", "--columns", "some"),
    ],
)
def test_wrong_usage_has_a_code_of_its_own(
    tmp_path: Path,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A script can tell it from a fault, wherever it is noticed."""
    monkeypatch.chdir(tmp_path)

    code = main([*arguments, "--archive", str(tmp_path), "--engine", "local", "--cores", "1"])

    assert code == 2
    assert capsys.readouterr().err.startswith("pipeline: ")


class Cleanings:
    """A compacted log that is written, cleaned, and looked at before and after."""

    def __init__(self, root: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._root = root
        (root / "log").mkdir()
        self._folder = CompactedFolder(root / "log")
        self._open: dict[int, int] = {}

    def round(self, number: int) -> Findings:
        """Write something, clean it, and return what an audit finds."""
        for _ in range(self._chance.randrange(1, 6)):
            self._write_segment()
        before = self._look(self._root / f"before-{number}")
        log = self._folder.log
        bases = [segment.base_offset for segment in log.segments]
        self._folder.clean(upto=max(base for base in bases if base <= log.last_stable_offset))
        after = self._look(self._root / f"after-{number}")
        findings = check_partition(self._law_task(before, after))[1]
        for view in (before, after):
            findings.extend(check_files(view).findings)
        self._folder.pass_time(self._chance.choice([1, 400, 2000]))
        return findings

    def _write_segment(self) -> None:
        for _ in range(self._chance.randrange(1, 30)):
            rows = [self._row() for _ in range(self._chance.randrange(1, 12))]
            producer = self._chance.randrange(10)
            if producer > 2:
                self._folder.write(*rows, codec=self._chance.choice([0, 0, 0, 1, 3, 4]))
                continue
            sequence = self._open.get(producer, 0)
            self._folder.write_transactional(4000 + producer, *rows, sequence=sequence)
            self._open[producer] = sequence + len(rows)
            if self._chance.random() < 0.7:
                self._folder.write_marker(4000 + producer, self._chance.randrange(2))
        self._folder.roll()

    def _row(self) -> tuple[bytes, bytes | None]:
        key = b"k%d" % self._chance.randrange(60)
        return key, None if self._chance.random() < 0.2 else self._chance.randbytes(8)

    def _look(self, root: Path) -> PinnedPartition:
        """Return a copy of the folder, as an audit sees a compacted topic."""
        self._folder.settle()
        shutil.copytree(self._folder.path, root / "orders-0")
        found = ArchiveView(str(root)).view(TopicPartition("orders", 0), is_committed=True)
        return replace(
            found,
            is_compacted=True,
            delete_retention_ms=self._folder.config.delete_retention_ms,
            first_dirty_offset=self._folder.first_dirty_offset,
        )

    def _law_task(self, before: PinnedPartition, after: PinnedPartition) -> LawTask:
        now_ms = self._folder.clock.now_ms()
        options = ReadOptions.parse(
            {"subscribe": "orders", "archive": str(self._root), "isolation": "read_committed"}
        )
        splits = [
            tuple(plan_splits(Manifest(taken_at_ms=now_ms, partitions=(each,)), options))
            for each in (before, after)
        ]
        return LawTask(
            before=before,
            after=after,
            splits_before=splits[0],
            splits_after=splits[1],
            taken_before_ms=now_ms,
            taken_after_ms=now_ms,
        )


SEEDS = range(int(os.environ.get("AUDIT_SEEDS", "20")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_in_random_cleanings(tmp_path: Path, seed: int) -> None:
    """Ten passes over a log of values, tombstones, codecs and transactions break no law."""
    cleanings = Cleanings(tmp_path, seed)

    found = [finding for number in range(10) for finding in cleanings.round(number).listed]

    assert found == []
