"""Files of a pass: index entries by the rule of appends, further segments where offsets end."""

from pathlib import Path

import pytest

from siltstone.cleaner.errors import CorruptSegment
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.output import CountedOutput, SegmentOutput
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import crc32c
from siltstone.storage import files
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import make_batch
from tests.support.invariants import check_indexes
from tests.support.logs import ORDERS
from tests.support.passes import CompactedFolder
from tests.support.segments import NOW_MS, append, load_segment, make_segment

pytestmark = pytest.mark.usefixtures("both_forms")


def log_in(path: Path, *, interval: int = 4096) -> LogToClean:
    """Return a log to write for; nothing of it is read."""
    return LogToClean(
        topic_partition=ORDERS,
        path=path,
        config=TopicConfig(index_interval_bytes=interval),
        open_files=OpenFiles(),
        segments=(),
        first_dirty_offset=0,
        first_uncleanable_offset=0,
        high_watermark=0,
    )


@pytest.mark.parametrize("interval", [0, 100, 300, 4096])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_indexes_are_those_of_appends(tmp_path: Path, interval: int, at_once: int) -> None:
    """Written in runs or batch by batch: the same three files."""
    batches = [
        make_batch(1 + number % 3, base_offset=10 * number, timestamp=1_000 + number * 7 % 50)
        for number in range(40)
    ]
    config = TopicConfig(index_interval_bytes=interval)
    (tmp_path / "one").mkdir()
    (tmp_path / "run").mkdir()
    one = make_segment(tmp_path / "one", config)
    for batch in batches:
        append(one, batch)
    one.seal()
    one.flush()

    output = SegmentOutput(log_in(tmp_path / "run", interval=interval), 0, NOW_MS)
    for start in range(0, len(batches), at_once):
        output.write(memoryview(b"".join(batches[start : start + at_once])))
    output.flush([], 5_000_000_000)

    (segment,) = output.hand_over()
    for kind in (files.LOG, files.INDEX, files.TIME_INDEX):
        assert segment.files.path(kind).read_bytes() == one.files.path(kind).read_bytes()
        assert segment.files.path(kind).stat().st_mtime_ns == 5_000_000_000
    assert (segment.max_timestamp, segment.first_batch_timestamp, segment.size) == (
        one.max_timestamp,
        one.first_batch_timestamp,
        one.size,
    )


def test_offsets_beyond_a_segment_begin_another(tmp_path: Path) -> None:
    """An offset that is 2^31 above the base goes into a further segment (KAFKA-20036)."""
    far = (1 << 31) + 5
    batches = [make_batch(2, base_offset=offset) for offset in (0, (1 << 31) - 2, far, far + 10)]
    output = SegmentOutput(log_in(tmp_path), 0, NOW_MS)

    output.write(memoryview(b"".join(batches)))
    aborted = [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(2, 0, far, far + 1)]
    output.flush(aborted, 0)

    facts = output.facts()
    first, second = output.hand_over()
    assert [(each.base_offset, each.next_offset) for each in facts] == [
        (0, 1 << 31),
        (far, far + 12),
    ]
    assert [each.crc for each in facts] == [
        crc32c(b"".join(batches[:2])),
        crc32c(b"".join(batches[2:])),
    ]
    assert first.all_aborted_transactions() == aborted[:1]
    assert second.all_aborted_transactions() == aborted[1:]
    for segment in (first, second):
        check_indexes(segment)


def test_what_belongs_elsewhere_is_refused(tmp_path: Path) -> None:
    """An offset below the segment's first has no place in an index: the log is damaged."""
    output = CountedOutput(log_in(tmp_path), 10)

    with pytest.raises(CorruptSegment, match="its offsets do not belong into this segment"):
        output.write(memoryview(make_batch(1, base_offset=9)))


def test_counting_is_what_writing_would_be(tmp_path: Path) -> None:
    """A dry run's output has the same facts, and no files."""
    batches = memoryview(b"".join(make_batch(3, base_offset=offset) for offset in range(0, 30, 3)))
    log = log_in(tmp_path)
    counted, written = CountedOutput(log, 0), SegmentOutput(log, 0, NOW_MS)

    with written:
        for output in (counted, written):
            output.write(batches)

        assert counted.facts() == written.facts()
        assert counted.bytes_written == len(batches)
        assert len(list(tmp_path.iterdir())) == 3
    assert not list(tmp_path.iterdir())


def test_what_is_not_handed_over_goes(tmp_path: Path) -> None:
    """A pass that ends early leaves no file; one that hands over keeps its files."""
    with SegmentOutput(log_in(tmp_path), 0, NOW_MS):
        pass
    gone = list(tmp_path.iterdir())
    with SegmentOutput(log_in(tmp_path), 0, NOW_MS) as output:
        (segment,) = output.hand_over()

    assert gone == []
    assert segment.log_path.exists()


def test_legacy_overflow_is_split_by_a_pass(tmp_path: Path) -> None:
    """A segment with offsets that its index cannot tell (KAFKA-6264) becomes two sound ones."""
    folder = CompactedFolder(tmp_path)
    folder.write((b"A", b"1"))
    folder.roll()
    path = folder.log.segments[0].log_path
    far = (1 << 31) + 7
    path.write_bytes(path.read_bytes() + make_batch([(b"B", b"2")], base_offset=far))
    segment = load_segment(folder.path, folder.config)
    swapped: list[LogSegment] = []

    log = LogToClean(
        topic_partition=ORDERS,
        path=folder.path,
        config=folder.config,
        open_files=OpenFiles(),
        segments=(segment,),
        first_dirty_offset=0,
        first_uncleanable_offset=far + 1,
        high_watermark=far + 1,
    )
    result = folder.cleaner.clean(log, lambda new, _: swapped.extend(new), lambda: None)

    assert [each.base_offset for each in swapped] == [0, far]
    assert result.records_written == 2
    for each in swapped:
        check_indexes(each)
