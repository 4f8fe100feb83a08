"""Splits: together they read what is asked for once, whatever way a log is cut."""

import json
import pickle
import random
from dataclasses import asdict
from itertools import chain, pairwise
from pathlib import Path

import pytest

from siltstone.pipeline.errors import BadOption, DataLost, SourceUnavailable
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition, PinnedSegment
from siltstone.pipeline.planning.segments import SegmentView
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.stores import Store, StoredFile
from siltstone.pipeline.transports import open_source
from siltstone.storage import files
from siltstone.storage.producers.transaction_index import AbortedTransaction
from tests.support.archives import Archive, damage, read_splits
from tests.support.batches import make_batch

START = 1_700_000_000_000


def offsets(archive: Archive, **options: str) -> list[int]:
    """Return the offsets of a read, checking that splits follow each other."""
    splits = archive.plan(**options)
    for first, second in pairwise(splits):
        assert first.end_offset == second.start_offset
    found: list[int] = read_splits(splits, ("offset",))["offset"].to_pylist()
    return found


@pytest.mark.parametrize("size", ["1", "700", "5k", "30k", "1m"])
def test_splits_read_every_record_once(archive: Archive, size: str) -> None:
    """However fine a log is cut, each offset comes once and in order."""
    archive.fill_plain(1000, interval=0)

    assert offsets(archive, splitBytes=size) == list(range(1000))


def test_splits_have_about_equal_bytes(archive: Archive) -> None:
    """Cuts are at index entries, so splits differ by a batch or two."""
    archive.fill_plain(2000, interval=0)

    splits = archive.plan(splitBytes="8k")

    assert len(splits) == round(sum(split.size for split in splits) / 8192)
    assert max(split.size for split in splits) < 1.5 * min(split.size for split in splits)


def test_a_whole_partition_is_planned_by_its_manifest_alone(archive: Archive) -> None:
    """Where nothing bounds the read no batch is looked for, so no file is opened."""
    folder = archive.fill_plain(500)
    with open_source(archive.options()) as source:
        view = source.view()
        for log in folder.glob("*.log"):
            log.unlink()

        (split,) = source.plan(view)

    assert split.size == view.size
    assert (split.start_offset, split.end_offset) == (0, 500)


@pytest.mark.slow
def test_thousands_of_tiny_segments_are_packed_together(archive: Archive) -> None:
    """Ten thousand segments of a batch are as many splits as their bytes ask for."""
    folder = archive.fill([[make_batch(1)]])
    for offset in range(1, 10_000):
        data = make_batch(1, base_offset=offset)
        (folder / files.segment_file_name(offset)).write_bytes(data)

    splits = archive.plan(splitBytes="400k")

    assert len(splits) == 2
    assert read_splits(splits, ("offset",))["offset"].to_pylist() == list(range(10_000))


def test_a_plan_of_many_segments_opens_few_files(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition of a terabyte has a thousand segments, and each is let go of after its cuts."""
    archive.fill_plain(4000, interval=0)
    counts = []
    opened = SegmentView._opened

    def count(self: SegmentView) -> StoredFile:
        counts.append(len([*Path("/proc/self/fd").iterdir()]))
        return opened(self)

    monkeypatch.setattr(SegmentView, "_opened", count)

    plain = archive.plan(splitBytes="400")

    assert len(plain) > 100
    assert max(counts) - min(counts) <= 6


def test_an_index_is_searched_in_its_file(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The indexes of ten terabytes are twenty gigabytes: a plan reads the entries that it needs."""
    archive.fill_plain(4000, interval=0)
    asked = []
    read = Store.read

    def note(self: Store, path: str) -> bytes | None:
        asked.append(path)
        return read(self, path)

    monkeypatch.setattr(Store, "read", note)

    archive.plan(splitBytes="400")

    assert not [path for path in asked if path.endswith(files.INDEX)]


def test_a_cut_between_segments_needs_no_file(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store each look at a file is a request."""
    segments = [[make_batch(size) for _ in range(20)] for size in (9, 10) * 10]
    archive.fill(segments)
    target = str(sum(map(len, chain(*segments))) // 20)
    with open_source(archive.options(splitBytes=target)) as source:
        view = source.view()
        monkeypatch.delattr(SegmentView, "_opened")

        splits = source.plan(view)

    assert [len(split.pieces) for split in splits] == [1] * 20


def test_a_task_carries_its_own_split_only(archive: Archive) -> None:
    """However many segments and aborted transactions its partition has."""
    aborted = [AbortedTransaction(7, at, at + 3, at + 4) for at in range(0, 1000, 5)]
    archive.fill_exact([make_batch(1, base_offset=at) for at in range(1000)], aborted)

    splits = archive.plan(splitBytes="400", isolation="read_committed")

    assert max(len(pickle.dumps(split)) for split in splits) < 1000
    for split in splits:
        assert set(split.aborted) == {
            each
            for each in aborted
            if each.first_offset < split.end_offset and each.last_offset >= split.start_offset
        }


@pytest.mark.parametrize("seed", range(5))
def test_any_range_is_read_exactly(archive: Archive, seed: int) -> None:
    """Bounds within batches, at their edges and across segments give just those offsets."""
    rng = random.Random(seed)
    archive.fill_plain(600, per_batch=rng.randint(1, 13), interval=rng.choice([0, 500, 4096]))
    for _ in range(20):
        low, high = sorted(rng.sample(range(601), 2))

        found = offsets(
            archive,
            startingOffsets=f'{{"t":{{"0":{low}}}}}',
            endingOffsets=f'{{"t":{{"0":{high}}}}}',
            splitBytes=str(rng.randint(1, 5000)),
        )

        assert found == list(range(low, high))


def test_splits_of_few_records_read_no_more_than_they_must(archive: Archive) -> None:
    """MaxRecordsPerPartition cuts between batches of ten, as bytes do."""
    archive.fill_plain(1000, interval=0)
    whole, finer = Scanned(), Scanned()

    splits = archive.plan(maxRecordsPerPartition="35")
    read_splits(archive.plan(), ("offset",), scanned=whole)
    found = read_splits(splits, ("offset",), scanned=finer)["offset"].to_pylist()

    assert found == list(range(1000))
    assert max(split.end_offset - split.start_offset for split in splits) <= 40
    assert len(splits) >= 28
    assert finer.bytes_read < 1.5 * whole.bytes_read


def test_more_splits_are_made_if_so_many_are_asked_for(archive: Archive) -> None:
    """MinPartitions makes splits smaller."""
    archive.fill_plain(1000, interval=0)

    assert len(archive.plan(minPartitions="8")) == 8


def test_a_split_needs_nothing_but_itself(archive: Archive) -> None:
    """A split goes to another process and back unchanged."""
    archive.fill_plain(100)
    (split,) = archive.plan()

    assert pickle.loads(pickle.dumps(split)) == split


def test_a_range_opens_only_the_segments_that_hold_it(archive: Archive) -> None:
    """Segments below and above a range may be damaged; nobody looks."""
    folder = archive.fill_plain(600, batches=20)
    for base in (0, 400):
        damage(folder / files.segment_file_name(base), 30)

    found = offsets(archive, startingOffsets='{"t":{"0":230}}', endingOffsets='{"t":{"0":390}}')

    assert found == list(range(230, 390))


@pytest.mark.parametrize("kind", [files.INDEX, files.TIME_INDEX])
@pytest.mark.parametrize("fault", ["missing", "empty", "zeros", "wrong", "torn"])
def test_a_bad_index_costs_time_and_no_record(archive: Archive, kind: str, fault: str) -> None:
    """An index is a hint: whatever it says, the same records are read."""
    folder = archive.fill_plain(600, batches=60, interval=0)
    path = folder / files.segment_file_name(0, kind)
    if fault == "missing":
        path.unlink()
    else:
        data = path.read_bytes()
        changed = {
            "empty": b"",
            "zeros": data + bytes(960),
            "wrong": bytes(byte ^ 5 for byte in data),
            "torn": data[:-3],
        }
        path.write_bytes(changed[fault])

    found = offsets(
        archive, startingOffsets='{"t":{"0":333}}', startingTimestamp="0", splitBytes="2000"
    )
    later = offsets(archive, startingTimestamp=str(START + 400_500), splitBytes="2000")

    assert found == list(range(600))
    assert later == list(range(401, 600))


def test_offsets_that_are_gone_are_data_loss(archive: Archive) -> None:
    """A start below the log's is an error that says what there is, or is moved there."""
    archive.fill_plain(100)
    (archive.root / files.LOG_START_OFFSETS).write_text("0\n1\nt 0 40\n")
    start = '{"t":{"0":10}}'

    with pytest.raises(DataLost, match="offset 10 of t-0 is gone: the log has 40 to 100"):
        archive.plan(startingOffsets=start)

    assert offsets(archive, startingOffsets=start, failOnDataLoss="false") == list(range(40, 100))
    assert offsets(archive) == list(range(40, 100))


def test_a_time_for_all_goes_before_one_by_partition(archive: Archive) -> None:
    """So it is with Spark's own source, at both ends."""
    archive.fill_plain(100)

    found = offsets(
        archive,
        startingTimestamp=str(START + 10_000),
        startingOffsetsByTimestamp=f'{{"t":{{"0":{START + 50_000}}}}}',
        endingTimestamp=str(START + 30_000),
        endingOffsetsByTimestamp=f'{{"t":{{"0":{START + 20_000}}}}}',
    )

    assert found == list(range(10, 30))


def test_a_start_by_time_that_nothing_reaches(archive: Archive) -> None:
    """Without a record so late it is an error, or the end under the strategy latest."""
    archive.fill_plain(50)
    late = str(START + 10**9)

    with pytest.raises(BadOption, match="no record of t-0 is at or after the starting time"):
        archive.plan(startingTimestamp=late)

    assert (
        offsets(archive, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    )


def test_an_unknown_topic_is_named(archive: Archive) -> None:
    """A topic that does not exist is said to be missing, and where."""
    archive.fill_plain(10)

    with pytest.raises(SourceUnavailable, match="there is no topic x in "):
        archive.plan(subscribe="x")


def test_topics_by_pattern_and_assignment(archive: Archive) -> None:
    """A pattern must match whole names; an assignment takes single partitions."""
    for topic, partition in (("a", 0), ("a", 1), ("ab", 0)):
        archive.fill_plain(10, topic=topic, partition=partition)

    by_pattern = archive.plan(subscribe="", subscribePattern="a.?")
    assigned = archive.plan(subscribe="", assign='{"a":[1]}')

    assert [str(split.topic_partition) for split in by_pattern] == ["a-0", "a-1", "ab-0"]
    assert [str(split.topic_partition) for split in assigned] == ["a-1"]


def test_an_empty_topic_has_no_splits(archive: Archive) -> None:
    """A partition without records is read to its end at once."""
    archive.fill([[]])

    assert archive.plan() == []


def test_a_torn_tail_of_a_killed_broker_is_not_read(archive: Archive) -> None:
    """The last segment ends with its last whole batch, which has to be asked for."""
    folder = archive.fill_plain(100, batches=5)
    last = max(folder.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])

    with pytest.raises(DataLost, match=r"is cut off.*have a broker start and stop in the dir"):
        archive.plan()
    assert offsets(archive, failOnDataLoss="false") == list(range(90))


def test_a_manifest_survives_json() -> None:
    """The broker's answer is read back the same; what it may add later is left out."""
    segment = PinnedSegment(base_offset=5, size=99, files=(".log", ".index"), inode=3)
    partition = PinnedPartition(
        topic="t",
        partition=1,
        log_start_offset=5,
        end_offset=9,
        last_stable_offset=8,
        folder=str(Path("/x")),
        segments=(segment,),
    )
    manifest = Manifest(pin="p", taken_at_ms=1, partitions=(partition,))

    facts = json.loads(json.dumps(asdict(manifest))) | {"news": 1}

    assert Manifest.from_facts(facts) == manifest
    with pytest.raises(ValueError, match="not a manifest"):
        Manifest.from_facts([])


def test_an_active_segment_without_index_entries_is_cut_all_the_same(archive: Archive) -> None:
    """A broker keeps the index of what it writes in memory: headers are walked from cut to cut."""
    folder = archive.fill([[make_batch(10) for _ in range(200)]], interval=0)
    for kind in (files.INDEX, files.TIME_INDEX):
        (folder / files.segment_file_name(0, kind)).write_bytes(b"")

    splits = archive.plan(splitBytes="4k")

    assert len(splits) > 5
    assert max(split.size for split in splits) < 1.5 * min(split.size for split in splits)
    assert read_splits(splits, ("offset",))["offset"].to_pylist() == list(range(2000))
