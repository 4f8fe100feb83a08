"""One writer, a flusher and readers at once, as in a running broker."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

from siltstone.config.topic import TopicConfig
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import make_batch
from tests.support.segments import NOW_MS, append_next, load_segment, make_segment

BATCHES = 3000
PER_BATCH = 3


def test_flushes_and_reads_beside_appends(tmp_path: Path) -> None:
    """Whatever is below the size is found, and the indexes come out as without company."""
    config = TopicConfig(index_interval_bytes=200)
    segment = make_segment(tmp_path, config)
    done = Event()

    def flush() -> int:
        count = 0
        while not done.is_set():
            segment.flush()
            count += 1
        return count

    def read(seed: int) -> int:
        random, count = Random(seed), 0
        while not done.is_set() or not count:
            end = segment.size
            if not end:
                continue
            offset = random.randrange(end // size * PER_BATCH)
            found = segment.locate(offset)
            assert found is not None
            assert found.position == offset // PER_BATCH * size
            cut = segment.cut(found.position, 1000, end, at_least_one=True)
            assert (cut.end - found.position) % size == 0
            assert cut.next_offset == cut.end // size * PER_BATCH
            count += 1
        return count

    batches = [make_batch(PER_BATCH, timestamp=n) for n in range(BATCHES)]
    size = len(batches[0])
    with ThreadPoolExecutor(3) as threads:
        others = [threads.submit(flush), threads.submit(read, 1), threads.submit(read, 2)]
        append_next(segment, batches)
        done.set()
        assert all(other.result() > 0 for other in others)
    segment.close()

    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert segment.find_damage() is None
    load_segment(tmp_path, config).recover()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_open_files_are_bounded_and_shared(tmp_path: Path) -> None:
    """Many readers of many segments at once keep no more descriptors than the limit."""
    kept = OpenFiles(4)
    segments = []
    for base in range(10):
        segment = LogSegment(
            tmp_path, base * 10, TopicConfig(), now_ms=NOW_MS, open_files=kept
        ).create()
        append_next(segment, [make_batch(2)], first=base * 10)
        segment.close()
        segments.append(segment)

    def read(seed: int) -> None:
        random = Random(seed)
        for _ in range(300):
            segment = random.choice(segments)
            found = segment.locate(segment.base_offset + 1)
            assert found is not None
            assert found.header.base_offset == segment.base_offset

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(read, range(4)))

    assert len(kept) == 4
