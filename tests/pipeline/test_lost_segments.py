"""An archive that lacks a segment, an end or an entry: neither audited nor exported as if whole."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.pipeline.audit.files import check_files
from siltstone.pipeline.command.cli import main
from siltstone.pipeline.errors import DataLost, SourceUnavailable
from siltstone.pipeline.jobs.replay_source import Part, read_part
from siltstone.pipeline.planning.archive_view import ArchiveView
from siltstone.pipeline.planning.manifest import PinnedPartition
from siltstone.pipeline.transports import open_source
from siltstone.storage import files
from siltstone.storage.directory import catalog
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.producers.transaction_index import ENTRY, AbortedTransaction
from siltstone.storage.topic_partition import TopicPartition
from tests.support.archives import Archive, damage, positions
from tests.support.batches import make_batch
from tests.support.passes import CompactedFolder

T = TopicPartition("t", 0)
COUNT, LAST_BASE = 100, 50


@pytest.fixture
def folder(archive: Archive) -> Path:
    """A partition of ten segments of ten records, in batches of five."""
    return archive.fill_plain(COUNT, per_batch=5, batches=2)


def run(archive: Archive, job: str, *more: str) -> int:
    """Run a job over the archive, and return its exit code."""
    return main([job, "t", "--archive", str(archive.root), "--engine", "local", *more])


def export(archive: Archive, *more: str) -> int:
    """Export the archive as a table beside it."""
    target = f"delta:{archive.root.parent}/table"
    return run(archive, "export", "--to", target, "--mode", "overwrite", *more)


def audit(archive: Archive) -> tuple[int, set[str]]:
    """Return the exit code of an audit, and the kinds of faults."""
    report = archive.root.parent / "report.json"
    code = run(archive, "audit", "--json", str(report))
    (found,) = json.loads(report.read_text())["partitions"]
    return code, set(found["counts"])


def remove(folder: Path, base: int) -> None:
    """Take a segment away with all that belongs to it."""
    for path in folder.glob(f"{base:020d}.*"):
        path.unlink()


@pytest.mark.parametrize("split_bytes", ["1", "64m"])
def test_a_segment_in_the_middle(
    archive: Archive, folder: Path, split_bytes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Export and audit end with 1 and name the offsets, however the rest is split."""
    split = ("--option", f"splitBytes={split_bytes}")
    assert export(archive, *split) == 0
    assert audit(archive) == (0, set())
    remove(folder, 30)

    assert export(archive, *split) == 1
    assert "the offsets 30 to 39 of t-0 are missing" in capsys.readouterr().err
    assert audit(archive) == (1, {".log"})
    assert export(archive, *split, "--option", "failOnDataLoss=false") == 0
    assert "export: 90 rows" in capsys.readouterr().err


def test_a_range_within_what_is_missing(archive: Archive, folder: Path) -> None:
    """A read of nothing but missing offsets is no empty one; beside them nothing is missed."""
    remove(folder, 30)

    def between(start: int, end: int) -> int:
        first, last = (json.dumps({"t": {"0": at}}) for at in (start, end))
        bounds = ("--option", f"startingOffsets={first}", "--option", f"endingOffsets={last}")
        return export(archive, *bounds)

    assert between(32, 38) == 1
    assert between(25, 35) == 1
    assert between(35, 45) == 1
    assert between(0, 30) == 0
    assert between(40, 100) == 0


def test_a_replay_of_what_is_missing(archive: Archive, folder: Path) -> None:
    """Rows are sent up to the gap and not beyond it."""
    remove(folder, 30)
    splits = tuple(archive.plan())
    part = Part(name="t-0", origin="", splits=splits)
    sent: list[int] = []

    with pytest.raises(DataLost, match="the offsets 30 to 39 of t-0 are missing"):
        sent.extend(chunk.following for chunk in read_part(part, 0))

    assert sent[-1] == 30


def test_gaps_of_a_compacted_topic(archive: Archive, folder: Path) -> None:
    """There offsets are missing by right, so only an index without its log shows a loss."""
    OffsetCheckpoint(archive.root, files.CLEANER_OFFSETS).write({T: 90})
    remove(folder, 30)

    assert export(archive) == 0
    assert audit(archive) == (0, set())

    (folder / files.segment_file_name(50)).unlink()
    assert audit(archive) == (1, {"missing-file"})


def test_the_laws_of_an_archive_that_lacks_something(
    archive: Archive, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An audit of two moments goes on beyond what is missing, and lists that too."""
    shutil.copytree(archive.root, tmp_path / "before")
    remove(folder, 30)

    for more in ((), ("--laws-only",)):
        assert run(archive, "audit", "--before", str(tmp_path / "before"), *more) == 1
        said = capsys.readouterr().err
        assert said.count("lost-latest: ") == 10
        assert (".log: " in said) == (not more)


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_end(
    archive: Archive, folder: Path, cut: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last batch is cut: what was behind it is not known, so nothing is exported."""
    log = max(folder.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-cut])

    assert export(archive) == 1
    assert "is cut off" in capsys.readouterr().err
    assert audit(archive) == (1, {"cut-end"})
    assert export(archive, "--option", 'endingOffsets={"t":{"0":90}}') == 0
    assert export(archive, "--option", "failOnDataLoss=false") == 0


@pytest.mark.parametrize("name", [files.RECOVERY_POINTS, files.HIGH_WATERMARKS])
def test_an_end_at_a_batch(archive: Archive, folder: Path, name: str) -> None:
    """A log that ends before what the directory's checkpoints know has lost its end."""
    OffsetCheckpoint(archive.root, name).write({T: COUNT})
    assert export(archive) == 0
    log = max(folder.glob("*.log"))
    log.write_bytes(log.read_bytes()[: positions(folder, int(log.stem))[-1]])

    assert export(archive) == 1
    code, kinds = audit(archive)
    assert (code, "cut-end" in kinds) == (1, True)


def test_a_last_segment_that_is_gone(archive: Archive, folder: Path) -> None:
    """The snapshot of producers that a stop leaves says where the log ended."""
    (folder / files.segment_file_name(COUNT, files.SNAPSHOT)).write_bytes(b"")
    assert export(archive) == 0
    remove(folder, 90)

    assert export(archive) == 1
    assert "cut-end" in audit(archive)[1]


def test_reserved_room_is_no_cut_end(archive: Archive, folder: Path) -> None:
    """Zeros behind the last batch are room that a broker has reserved."""
    log = max(folder.glob("*.log"))
    log.write_bytes(log.read_bytes() + bytes(5000))

    assert export(archive) == 0
    assert audit(archive) == (0, set())


class Transactions:
    """A log of some segments with transactions of a few producers, aborted or not."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self._root = root
        (root / "log").mkdir(parents=True)
        self._folder = CompactedFolder(root / "log")
        sequences: dict[int, int] = {}
        for _ in range(6):
            for _ in range(self.chance.randrange(5, 20)):
                producer = self.chance.randrange(4)
                rows = [(b"k", b"v")] * self.chance.randrange(1, 4)
                sequence = sequences.get(producer, 0)
                self._folder.write_transactional(4000 + producer, *rows, sequence=sequence)
                sequences[producer] = sequence + len(rows)
                if self.chance.random() < 0.4:
                    self._folder.write_marker(4000 + producer, self.chance.randrange(2))
            self._folder.roll()

    def look(self) -> PinnedPartition:
        """Return a copy, as an audit sees a topic that is not compacted."""
        self._folder.settle()
        copy = self._root / "copy"
        shutil.copytree(self._folder.path, copy / "orders-0")
        view = ArchiveView(str(copy)).view(TopicPartition("orders", 0), is_committed=True)
        return replace(view, is_compacted=False, first_dirty_offset=0)

    @staticmethod
    def sentences(view: PinnedPartition) -> list[str]:
        """Return what an audit finds."""
        return [finding.sentence for finding in check_files(view).findings.listed]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_every_bit_of_a_transaction_index(tmp_path: Path, seed: int) -> None:
    """Each flipped bit of an entry is found: the log says otherwise."""
    made = Transactions(tmp_path, seed)
    view = made.look()
    assert made.sentences(view) == []
    indexes = list((tmp_path / "copy").rglob("*.txnindex"))
    assert indexes

    for path in made.chance.choices(indexes, k=60):
        data = path.read_bytes()
        bit = made.chance.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert made.sentences(view), (path.name, bit % (ENTRY.size * 8))
        path.write_bytes(data)


def test_a_transaction_index_that_is_gone(tmp_path: Path) -> None:
    """An abort without its entry is found by its marker, entry by entry."""
    made = Transactions(tmp_path, 3)
    view = made.look()
    path = max((tmp_path / "copy").rglob("*.txnindex"))
    count = path.stat().st_size // ENTRY.size
    path.write_bytes(b"")

    said = made.sentences(view)

    assert len(said) == count
    assert all("is missing" in sentence for sentence in said)


@pytest.mark.parametrize("gone", [1, 3, 5])
def test_transactions_that_began_before_the_log(tmp_path: Path, gone: int) -> None:
    """Entries of transactions whose start retention has taken are no fault."""
    made = Transactions(tmp_path, 4)
    view = made.look()

    left = replace(view, segments=view.segments[gone:])

    assert made.sentences(left) == []


def test_a_transaction_index_that_goes_away(archive: Archive) -> None:
    """Without it aborted records would be read as committed, so the read is planned again."""
    entry = AbortedTransaction(1, 0, 6, 4)
    archive.fill_exact([make_batch(8)], [entry])
    with open_source(archive.options(isolation="read_committed")) as source:
        view = source.view()
        for path in archive.folder().glob("*.txnindex"):
            path.unlink()

        with pytest.raises(SourceUnavailable, match="went away while the read was planned"):
            source.plan(view)


def test_a_catalog_that_is_damaged(archive: Archive, folder: Path) -> None:
    """Nobody knows then which topics are compacted, so nothing is read."""
    (archive.root / catalog.FILE_NAME).write_text("{")

    with pytest.raises(SourceUnavailable, match=r"siltstone-catalog\.json cannot be read"):
        archive.plan()
    assert folder.exists()


@pytest.mark.parametrize("job", ["export", "snapshot"])
def test_damage_that_is_passed_over(
    archive: Archive, folder: Path, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary says how many places are not in the table."""
    damage(folder / files.segment_file_name(30), positions(folder, 30)[0] + 70)
    damage(folder / files.segment_file_name(70), positions(folder, 70)[1] + 70)
    for plan in ((), ("--plan", "shuffle")) if job == "snapshot" else ((),):
        target = f"parquet:{archive.root.parent}/table-{len(plan)}"
        assert run(archive, job, "--to", target, "--option", "onCorrupt=skip", *plan) == 0
        assert "; left out 2 damaged places (onCorrupt=skip)" in capsys.readouterr().err
