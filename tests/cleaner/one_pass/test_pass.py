"""Passes over a real log: the worked examples, tombstones, producers, transactions, codecs."""

from pathlib import Path

import pytest

from siltstone.cleaner.errors import CleaningAborted, CorruptSegment
from siltstone.cleaner.one_pass.stats import Reason
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import LOG_APPEND_TIME
from siltstone.protocol.records.build import ABORT, COMMIT
from siltstone.storage import files
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.invariants import check_folder, check_log
from tests.support.logs import validated
from tests.support.passes import CompactedFolder, content, no_swap

pytestmark = pytest.mark.usefixtures("both_forms")

A, B, C = b"A", b"B", b"C"


def write_each(folder: CompactedFolder, *rows: tuple[bytes | None, bytes | None]) -> None:
    """Append each row as a batch of its own."""
    for row in rows:
        folder.write(row)


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    """A map of one key could make no progress; the message says what to raise."""
    folder = CompactedFolder(tmp_path)

    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        folder.new_cleaner(1)


def test_worked_example(tmp_path: Path) -> None:
    """The example of docs/compaction.md: survivors 4, 5, 6, checkpoint 7; later 5 goes."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (A, b"a1"), (B, b"b1"), (A, b"a2"), (C, b"c1"))
    folder.roll()
    write_each(folder, (B, b"b2"), (A, None), (C, b"c2"))
    folder.roll()

    result = folder.clean()
    folder.clock.advance(999)
    early = folder.clean()
    between = folder.offsets()
    folder.clock.advance(1)
    late = folder.clean()

    assert (result.end_offset, result.map_keys, result.records_written) == (7, 3, 3)
    assert [segment.base_offset for segment in folder.log.segments] == [0, 7]
    assert between == [4, 5, 6]
    assert (early.horizons_set, early.horizons_reached) == (0, 0)
    assert result.horizons_set == 1
    assert result.next_horizon_ms == result.started_ms + 1000
    assert late.dropped[Reason.TOMBSTONE].records == late.horizons_reached == 1
    assert folder.offsets() == [4, 6]
    check_log(folder.log)


@pytest.mark.parametrize(
    ("active", "survivors"),
    [(7, [4, 5, 6]), (6, [3, 4, 5, 6]), (5, [2, 3, 4, 5, 6]), (4, [1, 2, 3, 4, 5, 6])],
)
def test_seed_example(tmp_path: Path, active: int, survivors: list[int]) -> None:
    """The records that survive depend on where the active segment begins."""
    folder = CompactedFolder(tmp_path)
    for offset, key in enumerate([A, B, A, C, B, A, C]):
        if offset == active:
            folder.roll()
        folder.write((key, b"%d" % offset))
    if active == 7:
        folder.roll()

    folder.clean()

    assert folder.offsets() == survivors


def test_tombstone_supersedes_before_its_horizon(tmp_path: Path) -> None:
    """Older values go in the first pass, the tombstone stays and hides them (rules 5 and 7)."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (A, b"1"), (A, None))
    folder.roll()

    result = folder.clean()

    assert folder.rows() == [(1, A, None)]
    assert result.dropped[Reason.SUPERSEDED].records == 1
    (header,) = folder.headers()
    assert header.has_delete_horizon
    assert header.base_timestamp == folder.clock.now_ms() + 1000
    assert folder.records()[0].timestamp == TIMESTAMP
    assert header.max_timestamp == TIMESTAMP


def test_horizon_is_set_once(tmp_path: Path) -> None:
    """Later passes and another delete.retention.ms do not move a horizon."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, None), (B, b"b"))
    folder.roll()
    folder.clean()
    horizon = folder.headers()[0].base_timestamp
    folder.log.reconfigure(TopicConfig(cleanup_policy=("compact",), delete_retention_ms=50_000))
    folder.clock.advance(10)

    folder.write((B, b"c"))
    folder.roll()
    folder.clean()

    assert [header.base_timestamp for header in folder.headers()] == [horizon, TIMESTAMP]


def test_tombstone_goes_at_its_horizon(tmp_path: Path) -> None:
    """Now >= horizon; with delete.retention.ms=0 it still takes two passes."""
    folder = CompactedFolder(tmp_path, delete_retention_ms=0)
    folder.write((A, None))
    folder.write((B, b"b"))
    folder.roll()

    first = folder.clean()
    second = folder.clean()

    assert (first.records_written, second.records_written) == (2, 1)
    assert folder.offsets() == [1]


def test_null_keys_go_and_are_counted(tmp_path: Path) -> None:
    """Records without a key, written before the policy changed, go below the map's end only."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (None, b"x"), (A, b"1"), (None, None), (B, b"2"))
    folder.roll()

    result = folder.clean()

    assert folder.offsets() == [1, 3]
    assert result.invalid_records == result.dropped[Reason.NULL_KEY].records == 2


def test_beyond_the_map_everything_stays(tmp_path: Path) -> None:
    """A full map ends the pass; what follows stays, null keys too, and is the next pass's."""
    folder = CompactedFolder(tmp_path, usable=2)
    write_each(folder, (A, b"1"), (A, b"2"), (B, b"3"), (None, b"4"), (C, b"5"), (A, b"6"))
    folder.roll()

    first = folder.clean()
    after_first = folder.offsets()
    second = folder.clean()

    assert first.is_map_full
    assert (first.end_offset, after_first) == (4, [1, 2, 4, 5])
    assert (second.end_offset, folder.offsets()) == (6, [2, 4, 5])


def test_prediction_counts_passes(tmp_path: Path) -> None:
    """A dry run tells how many passes a map of this size takes, and they are as many."""
    folder = CompactedFolder(tmp_path, usable=3)
    write_each(folder, *((b"%d" % (number % 10), b"v") for number in range(30)))
    folder.roll()

    predicted = folder.cleaner.dry_run(folder.to_clean(), lambda: None)
    passes = 0
    while folder.first_dirty_offset < 30:
        result = folder.clean()
        passes += 1
        if passes == 1:
            assert predicted.bytes_after == folder.log.size == result.bytes_written

    assert predicted.passes == passes
    assert passes > 3
    assert folder.offsets() == list(range(20, 30))


def test_empty_dirty_section_is_a_pass(tmp_path: Path) -> None:
    """A log without anything new can be cleaned: expired tombstones go."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, None), (B, b"b"))
    folder.roll()
    folder.clean()
    folder.clock.advance(1000)

    result = folder.clean()

    assert (result.first_dirty_offset, result.end_offset, result.map_keys) == (2, 2, 0)
    assert folder.offsets() == [1]


def test_nothing_to_clean_is_a_pass(tmp_path: Path) -> None:
    """A log of nothing but its active segment is left alone."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, b"1"))

    result = folder.clean()

    assert (result.end_offset, result.groups, result.bytes_read) == (0, (), 0)


def test_last_batch_of_a_producer_stays_empty(tmp_path: Path) -> None:
    """Its header is what a start learns the sequence from; a newer batch relieves it."""
    folder = CompactedFolder(tmp_path)
    producer = {"producer_id": 4000, "producer_epoch": 0}
    folder.write((A, b"1"), (A, b"2"), **producer, base_sequence=0)
    folder.write((A, b"3"))
    folder.roll()
    folder.clean()
    emptied = folder.headers()[0]
    folder.write((B, b"4"), **producer, base_sequence=2)
    folder.roll()

    result = folder.clean()

    assert (emptied.count, emptied.size, emptied.base_timestamp) == (0, 61, -1)
    assert (emptied.base_offset, emptied.last_offset, emptied.base_sequence) == (0, 1, 0)
    assert emptied.max_timestamp == TIMESTAMP + 1
    assert [header.base_offset for header in folder.headers()] == [2, 3]
    assert result.batches_emptied == 0


def test_duplicates_are_known_after_cleaning_and_a_crash(tmp_path: Path) -> None:
    """A retry of a batch whose records are all gone is still answered with its first offset."""
    folder = CompactedFolder(tmp_path)
    producer = {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0}
    folder.write((A, b"1"), **producer)
    folder.write((A, b"2"))
    folder.roll()
    folder.clean()
    folder.settle()

    folder.reopen()
    again = folder.log.append(validated(make_batch([(A, b"1")], **producer)))

    assert (again.duplicate, again.base_offset) == (True, 0)


def test_last_batch_of_the_round_stays_empty(tmp_path: Path) -> None:
    """So the log end offset can be told from the disk (KAFKA-17076)."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (A, b"1"), (None, b"2"))
    folder.roll()

    folder.clean()

    assert [(header.base_offset, header.count) for header in folder.headers()] == [(0, 1), (1, 0)]


def test_last_batch_of_the_round_goes_where_records_follow(tmp_path: Path) -> None:
    """They tell where the log ends: nothing empty is left for it (KAFKA-20452)."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (A, b"1"), (None, b"2"))
    folder.roll()
    folder.write((B, b"3"))

    folder.clean()

    assert [(header.base_offset, header.count) for header in folder.headers()] == [(0, 1), (2, 1)]


def test_aborted_data_goes_whatever_its_keys(tmp_path: Path) -> None:
    """The marker stays as long as data was seen, then gets its horizon, then goes."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, b"kept"))
    folder.write_transactional(9, (A, b"aborted"), (B, b"aborted"))
    folder.write_marker(9, ABORT)
    folder.write_transactional(9, (C, b"later"), sequence=2)
    folder.write_marker(9, COMMIT)
    folder.write((b"end", b""))
    folder.roll()

    first = folder.clean()
    seen = [(header.base_offset, header.is_control) for header in folder.headers()]
    entries = folder.log.aborted_transactions(0, 100)
    second = folder.clean()
    marked = [header.has_delete_horizon for header in folder.headers() if header.is_control]
    entries_then = folder.log.aborted_transactions(0, 100)
    folder.clock.advance(1000)
    third = folder.clean()

    assert first.dropped[Reason.ABORTED].records == 2
    assert seen == [(0, False), (3, True), (4, False), (5, True), (6, False)]
    assert (entries, entries_then) == ([(9, 1)], [])
    assert folder.rows()[:2] == [(0, A, b"kept"), (4, C, b"later")]
    assert second.horizons_set == 1
    assert marked == [True, False]
    assert third.dropped[Reason.MARKER].records == 1
    assert [header.base_offset for header in folder.headers()] == [0, 4, 5, 6]


def test_transaction_spans_segments_and_groups(tmp_path: Path) -> None:
    """Data in one group and the marker in another, or beyond the pass, belong together."""
    folder = CompactedFolder(tmp_path, segment_bytes=100)
    folder.write_transactional(9, (A, b"aborted"))
    folder.roll()
    folder.write((B, b"b"))
    folder.roll()
    folder.write_marker(9, ABORT)
    folder.write((C, b"c"))
    folder.roll()

    folder.clean(upto=2)
    first = [header.base_offset for header in folder.headers()]
    folder.first_dirty_offset = 0
    folder.clean()

    assert first == [0, 1, 2, 3]  # the first is the producer's last: its header stays
    assert folder.rows() == [(1, B, b"b"), (3, C, b"c")]
    assert folder.headers()[0].count == 0


def test_an_abort_in_the_active_segment_counts(tmp_path: Path) -> None:
    """A record that it aborts does not replace the value that the key had before."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, b"committed"))
    folder.roll()
    folder.write_transactional(9, (A, b"aborted"))
    folder.roll()
    folder.write_marker(9, ABORT)
    folder.clean()

    assert folder.rows() == [(0, A, b"committed")]


def test_as_many_transactions_as_there_are(tmp_path: Path) -> None:
    """Tables of producers grow; hundreds of open transactions are told apart."""
    folder = CompactedFolder(tmp_path)
    producers = range(1, 400)
    for producer_id in producers:
        folder.write_transactional(producer_id, (b"%d" % producer_id, b"v"))
    for producer_id in producers:
        folder.write_marker(producer_id, ABORT if producer_id % 2 else COMMIT)
    folder.write((b"end", b""))
    folder.roll()

    result = folder.clean()

    keys = [key for _, key, _ in folder.rows()]
    assert keys == [
        *(b"%d" % producer_id for producer_id in producers if not producer_id % 2),
        b"end",
    ]
    assert result.dropped[Reason.ABORTED].records == 200
    assert len(folder.log.aborted_transactions(0, 10_000)) == 200


def test_markers_are_never_compared_as_keys(tmp_path: Path) -> None:
    """All markers share two keys; each stays with its data."""
    folder = CompactedFolder(tmp_path)
    for producer_id in (7, 8, 9):
        folder.write_transactional(producer_id, (b"%d" % producer_id, b"v"))
        folder.write_marker(producer_id, COMMIT)
    folder.roll()

    folder.clean()

    assert [header.is_control for header in folder.headers()] == [False, True] * 3


@pytest.mark.parametrize("codec", range(5))
def test_codec_is_kept(tmp_path: Path, codec: int) -> None:
    """A thinned batch is packed by its own codec; one that stays whole is copied as it is."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, b"a" * 50), (B, b"b" * 50), codec=codec)
    folder.write((A, b"c" * 50), (C, b"d" * 50), codec=codec)
    folder.roll()
    whole = folder.batches()[1][1]

    folder.clean()

    assert [header.codec for header in folder.headers()] == [codec, codec]
    assert folder.rows() == [(1, B, b"b" * 50), (2, A, b"c" * 50), (3, C, b"d" * 50)]
    assert folder.batches()[1][1] == whole


@pytest.mark.parametrize("codec", [0, 3])
def test_batches_beyond_the_buffer(tmp_path: Path, codec: int) -> None:
    """Buffers grow to a batch that does not fit and shrink again."""
    folder = CompactedFolder(tmp_path, chunk=300)
    big = [(b"%d" % number, bytes(range(256))) for number in range(40)]
    folder.write((A, b"1"))
    folder.write(*big, codec=codec)
    folder.write(*big[:20], codec=codec)
    folder.write((A, b"2"))
    folder.roll()

    result = folder.clean()

    assert folder.offsets() == list(range(21, 62))
    assert result.records_read == 62


def test_log_append_time_stays(tmp_path: Path) -> None:
    """Every record of a thinned batch keeps the time of the append."""
    folder = CompactedFolder(tmp_path)
    stamped = {"flags": LOG_APPEND_TIME, "max_timestamp": TIMESTAMP + 77}
    folder.write((A, b"1"), (B, b"2"), **stamped)
    folder.write((A, b"3"), (C, None), **stamped)
    folder.roll()

    folder.clean()

    assert {record.timestamp for record in folder.records()} == {TIMESTAMP + 77}
    assert [header.max_timestamp for header in folder.headers()] == [TIMESTAMP + 77] * 2
    check_log(folder.log)


def test_segments_merge_in_the_next_pass(tmp_path: Path) -> None:
    """Grouping goes by the sizes before cleaning."""
    folder = CompactedFolder(tmp_path, segment_bytes=1000)
    for _ in range(3):
        for _ in range(8):
            folder.write((A, b"v" * 40))
        folder.roll()

    first = folder.clean()
    shrunk = len(folder.log.segments)
    second = folder.clean()

    assert [len(group.inputs) for group in first.groups] == [1, 1, 1]
    assert shrunk == 4
    assert [len(group.inputs) for group in second.groups] == [3]
    assert len(folder.log.segments) == 2
    check_log(folder.log)


def test_facts_name_the_files(tmp_path: Path) -> None:
    """Sizes and checksums are those of the files that went in and came out."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, (A, b"1"), (B, b"2"))
    folder.roll()
    write_each(folder, (A, b"3"))
    folder.roll()
    before = [(folder.path / f"{base:020d}.log").read_bytes() for base in (0, 2)]

    result = folder.clean()

    (group,) = result.groups
    assert [(each.name, each.size, each.crc) for each in group.inputs] == [
        (f"{base:020d}.log", len(data), crc32c(data))
        for base, data in zip((0, 2), before, strict=True)
    ]
    after = (folder.path / group.outputs[0].name).read_bytes()
    assert (group.outputs[0].size, group.outputs[0].crc) == (len(after), crc32c(after))
    assert [each.next_offset for each in (*group.inputs, *group.outputs)] == [2, 3, 3]


def test_abort_at_every_check_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Whenever the pass is no longer wanted, no file of it stays."""
    folder = CompactedFolder(tmp_path, chunk=100)
    for number in range(12):
        folder.write((A, b"%d" % number), (B, None))
    folder.roll()
    before, names = content(folder.log), sorted(path.name for path in folder.path.iterdir())
    checks = 0
    while True:
        left = checks

        def still_wanted() -> None:
            nonlocal left
            if left == 0:
                raise CleaningAborted
            left -= 1

        try:
            folder.cleaner.clean(folder.to_clean(), no_swap, still_wanted)
        except CleaningAborted:
            checks += 1
        except AssertionError:
            break
        assert content(folder.log) == before
        assert sorted(path.name for path in folder.path.iterdir()) == names

    assert checks > 20


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("where", [8, 16, 17, 21, 23, 57, 70])
def test_corrupt_batch_stops_the_pass(tmp_path: Path, where: int, codec: int) -> None:
    """It is named by file, position and offset, and nothing of it is written."""
    folder = CompactedFolder(tmp_path)
    for number in range(3):
        folder.write((A, b"%d" % number), (B, b"x" * 30), codec=codec)
    folder.roll()
    log = folder.to_clean()
    path = log.segments[0].log_path
    size = folder.headers()[0].size
    data = bytearray(path.read_bytes())
    data[size + where] ^= 0x55
    path.write_bytes(data)

    with pytest.raises(CorruptSegment) as caught:
        folder.cleaner.clean(log, no_swap, lambda: None)

    assert (caught.value.path, caught.value.position, caught.value.offset) == (path, size, 2)
    assert not list(folder.path.glob("*" + files.CLEANED))


def test_torn_end_stops_the_pass(tmp_path: Path) -> None:
    """A closed segment that ends inside a batch is damaged, not finished."""
    folder = CompactedFolder(tmp_path)
    folder.write((A, b"1"))
    folder.write((B, b"2"))
    folder.roll()
    log = folder.to_clean()
    size = folder.headers()[0].size
    path = log.segments[0].log_path
    path.write_bytes(path.read_bytes()[:-1])
    end = log.segments[0].end
    end.resize(end.size - 1)

    with pytest.raises(CorruptSegment, match="1 bytes of it are missing"):
        folder.cleaner.clean(log, no_swap, lambda: None)

    assert size


def test_offset_and_timestamp_lookups_after_cleaning(tmp_path: Path) -> None:
    """Indexes of the new segment answer as those of the old ones did, for what is left."""
    folder = CompactedFolder(tmp_path, index_interval_bytes=0)
    for number in range(50):
        folder.write((b"%d" % (number % 20), b"v"), timestamp=TIMESTAMP + number)
    folder.roll()

    folder.clean()

    assert folder.offsets() == list(range(30, 50))
    for number in range(50):
        read = folder.log.read(number, 1, 50)
        assert read is not None
        assert read.segment.header_at(read.slice.position).base_offset == max(30, number)
        found = folder.log.find_offset_by_timestamp(TIMESTAMP + number, 50)
        assert found is not None
        assert found.offset == max(30, number)
    check_log(folder.log)


def test_folder_is_the_same_after_a_start(tmp_path: Path) -> None:
    """A cleaned log is read again as it is, cleanly and after a crash."""
    folder = CompactedFolder(tmp_path)
    write_each(folder, *((b"%d" % (number % 7), b"v") for number in range(40)))
    folder.roll()
    folder.clean()
    folder.pass_time(folder.config.file_delete_delay_ms)
    before = content(folder.log)

    folder.reopen()
    crashed = content(folder.log)
    folder.close()
    folder.reopen(is_clean=True)

    assert crashed == content(folder.log) == before
    check_folder(folder.log)
