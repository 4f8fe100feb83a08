"""The stream job: a table that follows its topic by increments, killed and changed meanwhile."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.schema import Field, PrimitiveType

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption, PipelineError, Refused
from siltstone.pipeline.jobs import stream as stream_job
from siltstone.pipeline.jobs.snapshot import EVERY_RECORD, SnapshotSpec, snapshot, write
from siltstone.pipeline.jobs.stream import StreamSummary, stream
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.sinks.lake import Lake
from siltstone.pipeline.sinks.state import PROPERTY, TableState
from siltstone.pipeline.sinks.table import open_table
from siltstone.pipeline.transports.archive import ArchiveSource
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.topic_partition import TopicPartition
from tests.support.keyed_log import KeyedLog
from tests.support.lakes import read

KINDS = ("delta:{}/d", "iceberg:{}/w/users")
KILLS = ("before", "after", "before", "before", "after")
"""Where each run ends: before or after a commit."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Killed(BaseException):
    """The process ends here."""


class Followed:
    """A topic of two partitions, and a table that follows it."""

    def __init__(self, root: Path, kind: str = KINDS[0], **wanted: Any) -> None:
        self.log = KeyedLog(root / "log", partitions=2)
        self.spec = SnapshotSpec(**{"topic": "t", "target": kind.format(root), **wanted})

    def run(self, **options: str) -> StreamSummary:
        """Follow the topic to its end."""
        read = {"archive": str(self.log.root), **options}
        return stream(LocalEngine(1), read, self.spec, once=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return what is in the table."""
        table = read(self.spec.target)
        return [] if table is None else table.to_pylist()

    def table(self) -> dict[tuple[int, bytes], bytes]:
        """Return the value of each key; none comes twice."""
        rows = self.rows()
        found = {(row["partition"], row["key"]): row["value"] for row in rows}
        assert len(found) == len(rows)
        return found

    def offsets(self) -> list[tuple[int, int]]:
        """Return partition and offset of each row."""
        return sorted((row["partition"], row["offset"]) for row in self.rows())

    def all_offsets(self) -> list[tuple[int, int]]:
        """Return partition and offset of each record of the topic."""
        return [(at, offset) for at, end in self.log.ends().items() for offset in range(end)]

    def state(self) -> TableState:
        """Return the state of the table."""
        state = open_table(self.spec.target).state()
        assert state is not None
        return state

    def compact(self) -> None:
        """Have it seen as a topic that a cleaner has been at."""
        OffsetCheckpoint(self.log.root, files.CLEANER_OFFSETS).write({TopicPartition("t", 0): 1})


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have all that comes happen so many ms later."""
    view = ArchiveSource.view
    passed = [0]

    def as_of_later(source: ArchiveSource) -> Manifest:
        taken = view(source)
        return replace(taken, taken_at_ms=taken.taken_at_ms + passed[0])

    def pass_ms(ms: int) -> None:
        passed[0] += ms

    monkeypatch.setattr(ArchiveSource, "view", as_of_later)
    return pass_ms


@pytest.mark.parametrize("kind", KINDS)
def test_table_of_last_values(tmp_path: Path, kind: str) -> None:
    """The table has the last value of each key after each run, whatever the limits are."""
    followed = Followed(tmp_path, kind)
    for limits, most in (({}, 1), ({}, 1), ({"maxOffsetsPerTrigger": "60"}, 5)):
        followed.log.write(200)
        summary = followed.run(**limits)

        assert followed.table() == followed.log.live()
        assert summary.rows == 200
        assert 1 <= summary.commits <= most


@pytest.mark.parametrize("kind", KINDS)
def test_every_record(tmp_path: Path, kind: str) -> None:
    """With --append the table has each record once, also tombstones and those without a key."""
    followed = Followed(tmp_path, kind, key_scope=EVERY_RECORD)
    for _ in range(3):
        followed.log.write(100)
        followed.log.append(1, None, b"v")
        assert followed.run(maxOffsetsPerTrigger="40").commits > 2

    assert followed.offsets() == followed.all_offsets()
    assert any(row["key"] is None for row in followed.rows())
    assert any(row["value"] is None for row in followed.rows())


@pytest.mark.parametrize("scope", ["partition", EVERY_RECORD])
def test_killed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    """However often it is killed before or after a commit, each record counts once."""
    followed = Followed(tmp_path, key_scope=scope)
    followed.log.write(400)
    committed = Lake.committed
    ends = iter(KILLS)

    def sometimes(*arguments: Any) -> str:
        end = next(ends, "")
        if end == "before":
            raise Killed
        version: str = committed(*arguments)
        if end == "after":
            raise Killed
        return version

    monkeypatch.setattr(Lake, "committed", sometimes)
    kills = 0
    while True:
        followed.log.write(40)
        try:
            followed.run(maxOffsetsPerTrigger="50")
            break
        except Killed:
            kills += 1

    assert kills == len(KILLS)
    if scope == EVERY_RECORD:
        assert followed.offsets() == followed.all_offsets()
    else:
        assert followed.table() == followed.log.live()


def test_an_increment_has_a_limit_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an option what is new comes in several commits, by bytes of the log."""
    monkeypatch.setattr(stream_job, "MAX_BYTES", "4k")
    followed = Followed(tmp_path)
    followed.log.write(20)
    followed.run()
    followed.log.write(1000)

    assert followed.run().commits > 2
    assert followed.table() == followed.log.live()


def test_it_ends_where_the_topic_ended_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--once ends, although each increment finds new records."""
    followed = Followed(tmp_path)
    followed.log.write(100)
    followed.run()
    followed.log.write(100)

    def busy(*arguments: Any) -> Any:
        found = write(*arguments)
        followed.log.write(60)
        return found

    monkeypatch.setattr(stream_job, "write", busy)

    assert followed.run(maxOffsetsPerTrigger="50").commits < 8
    monkeypatch.undo()
    followed.run()
    assert followed.table() == followed.log.live()


def test_many_partitions_are_few_files(tmp_path: Path) -> None:
    """An increment of a little from each partition is one file and not one of each."""
    log = KeyedLog(tmp_path / "log", partitions=12)
    for partition in range(12):
        log.append(partition, b"k", b"%d" % partition)
    spec = SnapshotSpec(topic="t", target=f"delta:{tmp_path}/t", key_scope=EVERY_RECORD)
    for target, scope in (("rows", EVERY_RECORD), ("last", "partition")):
        spec = replace(spec, target=f"delta:{tmp_path}/{target}", key_scope=scope)
        stream(LocalEngine(1), {"archive": str(log.root)}, spec, once=True)

        table = read(spec.target)
        assert table is not None
        assert sorted(table["value"].to_pylist()) == sorted(b"%d" % each for each in range(12))
        assert len(open_table(spec.target).files()) == 1


def test_tombstones_that_are_gone(tmp_path: Path, later: Callable[[int], None]) -> None:
    """A stream that stood still for longer than a tombstone stays builds its table again."""
    followed = Followed(tmp_path)
    followed.compact()
    followed.log.write(100)
    followed.run()
    key = next(key for partition, key in followed.log.live() if partition == 0)
    followed.log.append(0, key, None)
    later(DAY_MS)

    followed.run()

    assert followed.table() == followed.log.live()
    assert (0, key) not in followed.table()


def test_limits_make_a_table_no_younger(tmp_path: Path, later: Callable[[int], None]) -> None:
    """A tombstone that an increment has not reached may be as old as the state before it."""
    followed = Followed(tmp_path)
    followed.compact()
    followed.log.write(100)
    followed.run()
    before = followed.state()
    followed.log.write(100)
    later(HOUR_MS)
    snapshot(
        LocalEngine(1),
        {"archive": str(followed.log.root), "maxOffsetsPerTrigger": "30"},
        replace(followed.spec, incremental=True),
    )
    between = followed.state()
    followed.run()

    assert before.offsets != between.offsets
    assert before.taken_at_ms == between.taken_at_ms
    assert followed.state().taken_at_ms > before.taken_at_ms
    assert followed.table() == followed.log.live()


def test_no_commit_without_news(tmp_path: Path, later: Callable[[int], None]) -> None:
    """A topic at rest leaves no commits, but for one now and then that the table has all of it."""
    followed = Followed(tmp_path)
    followed.log.write(100)
    followed.run()
    later(DAY_MS)
    assert followed.run().commits == 0

    followed.compact()
    followed.run()
    first = followed.state()
    later(HOUR_MS)
    assert followed.run().commits == 0
    later(6 * HOUR_MS)
    assert followed.run().commits == 1
    later(20 * HOUR_MS)
    followed.log.write(10)
    followed.run()
    assert followed.state().taken_at_ms > first.taken_at_ms + DAY_MS


def test_records_that_are_gone(tmp_path: Path) -> None:
    """With --append the table has records that the topic has no more: it is not built again."""
    followed = Followed(tmp_path, key_scope=EVERY_RECORD)
    followed.log.write(100)
    followed.run()
    before = followed.offsets()
    followed.log.write(100)
    starts = {TopicPartition("t", 0): followed.log.ends()[0] - 1}
    OffsetCheckpoint(followed.log.root, files.LOG_START_OFFSETS).write(starts)

    with pytest.raises(Refused, match=r"does not go on with .* begins at offset .* another table"):
        followed.run()

    assert followed.offsets() == before


def test_a_table_that_was_taken_away(tmp_path: Path) -> None:
    """Nothing but the table says what it has, so it is built again."""
    followed = Followed(tmp_path)
    followed.log.write(60)
    followed.run()
    shutil.rmtree(tmp_path / "d")
    followed.log.write(60)
    followed.run()

    assert followed.table() == followed.log.live()


def test_a_version_that_was_restored(tmp_path: Path) -> None:
    """The state goes back with the rows, and the stream goes on from there."""
    followed = Followed(tmp_path, KINDS[0], key_scope=EVERY_RECORD)
    for _ in range(3):
        followed.log.write(30)
        followed.run()
    DeltaTable(f"{tmp_path}/d").restore(0)
    followed.run()

    assert followed.offsets() == followed.all_offsets()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", ["topic", EVERY_RECORD, "partition"])
def test_a_table_of_other_rows(tmp_path: Path, kind: str, scope: str) -> None:
    """A merge by partition and key is right only beside rows that were kept in the same way."""
    followed = Followed(tmp_path, kind, key_scope=scope)
    followed.log.write(60)
    followed.run()
    before = followed.offsets()
    followed.spec = replace(
        followed.spec, key_scope=EVERY_RECORD if scope == "partition" else "partition"
    )

    with pytest.raises(Refused, match=r"does not go on with .*: it has .*; name another table"):
        followed.run()

    assert followed.offsets() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_another_topic(tmp_path: Path, kind: str) -> None:
    """Neither that of another name nor of one that was made again is gone on with."""
    followed = Followed(tmp_path, kind)
    followed.log.write(60)
    followed.run()
    before = followed.table()
    shutil.copytree(followed.log.root, tmp_path / "other")
    for partition in (0, 1):
        (tmp_path / f"other/t-{partition}").rename(tmp_path / f"other/u-{partition}")

    other = replace(followed.spec, topic="u")
    with pytest.raises(Refused, match="was made of topic t; name another table"):
        stream(LocalEngine(1), {"archive": f"{tmp_path}/other"}, other, once=True)
    followed.log.remake()
    with pytest.raises(Refused, match="topic t was deleted and made again since; name another"):
        followed.run()

    assert followed.table() == before


def test_a_column_of_another_writer(tmp_path: Path) -> None:
    """Rows of the table would have a column that the new ones lack."""
    followed = Followed(tmp_path, KINDS[0])
    followed.log.write(60)
    followed.run()
    DeltaTable(f"{tmp_path}/d").alter.add_columns([Field("more", PrimitiveType("integer"))])
    followed.log.write(60)

    with pytest.raises(BadOption, match=r"has other columns \(more int32\)"):
        followed.run()


def test_a_state_that_cannot_be_read(tmp_path: Path) -> None:
    """A stream leaves such a table alone: which rows it has is not known."""
    followed = Followed(tmp_path)
    followed.log.write(60)
    followed.run()
    properties = CommitProperties(custom_metadata={PROPERTY: "{}"})
    DeltaTable(f"{tmp_path}/d").delete(commit_properties=properties)

    with pytest.raises(Refused, match="that is not the state of a snapshot table"):
        followed.run()


def test_small_files_are_put_together(tmp_path: Path) -> None:
    """Delta's own OPTIMIZE does, with the state in its commit; pyiceberg has no such call."""
    followed = Followed(tmp_path, KINDS[0], key_scope=EVERY_RECORD)
    for _ in range(22):
        followed.log.write(1)
        followed.run()

    assert len(open_table(followed.spec.target).files()) < 5
    assert followed.offsets() == followed.all_offsets()
    held = DeltaTable(f"{tmp_path}/d").history(30)
    assert [each["operation"] for each in held].count("OPTIMIZE") == 1
    assert all("siltstone.state" in each for each in held)


def test_where_a_stream_begins(tmp_path: Path) -> None:
    """A table of every record may begin late, and goes on from its own offsets."""
    followed = Followed(tmp_path, key_scope=EVERY_RECORD)
    followed.log.write(50)
    early = followed.all_offsets()
    assert followed.run(startingOffsets="latest").rows == 0
    followed.log.write(50)
    followed.run(startingOffsets="latest")

    assert followed.offsets() == sorted(set(followed.all_offsets()) - set(early))


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is for a stream with --append"),
        ({"endingOffsets": "earliest"}, "a stream has no end, so leave endingOffsets out"),
        ({"maxBytesPerTrigger": "many"}, "maxBytesPerTrigger is a number of bytes"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, option: dict[str, str], why: str) -> None:
    """Each is a sentence, and no table is made."""
    followed = Followed(tmp_path)

    with pytest.raises(PipelineError, match=why):
        followed.run(**option)

    assert not (tmp_path / "d").exists()


def test_headers(tmp_path: Path) -> None:
    """They are a column if they are asked for."""
    followed = Followed(tmp_path, headers=True)
    followed.log.write(5)
    followed.run()

    table = read(followed.spec.target)
    assert table is not None
    assert pa.types.is_list(table.schema.field("headers").type)
