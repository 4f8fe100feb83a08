"""Recovering a segment after a crash: a prefix of its batches, whatever happened to the file."""

import zlib
from pathlib import Path
from random import Random

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage import files
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.scan import LegacyFormatError
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import make_batch, make_producer_batch, make_rows
from tests.support.segments import append, append_next, load_segment, make_segment

CONFIG = TopicConfig(index_interval_bytes=300)
LATE_MS = 10**9
KINDS = (".log", ".index", ".timeindex")


def fill(folder: Path, seed: int = 1) -> LogSegment:
    """Return a closed segment of forty batches of all kinds."""
    random = Random(seed)
    written = make_segment(folder, CONFIG)
    batches = [
        make_batch(
            make_rows(random.randrange(1, 9), size=random.randrange(60)),
            timestamp=random.randrange(10**6),
            codec=random.randrange(5),
        )
        for _ in range(40)
    ]
    append_next(written, batches)
    written.close()
    return written


def contents(folder: Path) -> list[bytes]:
    """Return the files of the segment."""
    return [(folder / f"00000000000000000000{kind}").read_bytes() for kind in KINDS]


def boundaries(segment: LogSegment) -> list[int]:
    """Return where batches begin, and the end."""
    return [*(each.position for each in segment.batches()), segment.size]


def producers_of(folder: Path) -> ProducerStateManager:
    """Return empty producer state."""
    return ProducerStateManager(folder, TopicPartition("t", 0))


def test_readers_go_on_with_the_rebuilt_index(tmp_path: Path) -> None:
    """The old one was open, since the check before has read it, and is of no use any more."""
    fill(tmp_path)
    (tmp_path / "00000000000000000000.index").write_bytes(bytes(80))
    reopened = load_segment(tmp_path, CONFIG)
    assert reopened.find_damage() is not None

    reopened.recover()

    assert reopened.find_damage() is None


def test_an_append_while_the_recovered_files_are_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush does not close what the append has opened: the last time entry is written."""
    fill(tmp_path)
    reopened = load_segment(tmp_path, CONFIG)
    reopened.recover()
    first, fsync = reopened.next_offset(), files.fsync

    def append_meanwhile(fd: int) -> None:
        monkeypatch.undo()
        append_next(reopened, [make_batch(timestamp=LATE_MS)], first=first)
        fsync(fd)

    monkeypatch.setattr(files, "fsync", append_meanwhile)
    reopened.flush()
    reopened.close()

    assert load_segment(tmp_path, CONFIG).max_timestamp == LATE_MS


def test_a_time_index_that_is_left_empty_is_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure behind a clean stop brings old entries back, which no start checks."""
    fill(tmp_path)
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    reopened = load_segment(tmp_path, CONFIG)
    reopened.recover()
    synced: list[str] = []
    monkeypatch.setattr(
        files, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().suffix)
    )

    reopened.close()

    assert synced == [files.TIME_INDEX, ""]  # and the folder


def test_sound_segment_is_left_as_it_is(tmp_path: Path) -> None:
    """Recovery rebuilds the very same indexes that appends have made."""
    fill(tmp_path)
    before = contents(tmp_path)

    cut = load_segment(tmp_path, CONFIG).recover()

    assert cut == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize("interval", [0, 300, 4096])
def test_indexes_are_rebuilt_from_nothing(tmp_path: Path, interval: int) -> None:
    """Missing indexes, also a missing time index, come back as they were."""
    config = TopicConfig(index_interval_bytes=interval)
    written = make_segment(tmp_path, config)
    append_next(written, [make_batch(3, timestamp=n) for n in range(100)])
    written.close()
    before = contents(tmp_path)
    (tmp_path / "00000000000000000000.index").unlink()
    (tmp_path / "00000000000000000000.timeindex").write_bytes(b"junk")

    reopened = load_segment(tmp_path, config)
    assert reopened.find_damage()
    reopened.recover()

    assert contents(tmp_path) == before
    assert reopened.find_damage() is None


def test_lost_memory_of_an_active_segment(tmp_path: Path) -> None:
    """After a kill the indexes are behind the log; recovery makes up for that."""
    killed = make_segment(tmp_path, CONFIG)
    append_next(killed, [make_batch(3, timestamp=n) for n in range(50)])
    killed.flush()
    append_next(killed, [make_batch(3, timestamp=50 + n) for n in range(50)], first=150)

    reopened = load_segment(tmp_path, CONFIG)
    cut = reopened.recover()
    killed.close()

    assert cut == 0
    assert reopened.max_timestamp == 101
    assert reopened.next_offset() == 300


@pytest.mark.parametrize("junk", [bytes(5000), b"\xff" * 100, b"x" * 61])
def test_junk_behind_the_last_batch_is_cut(tmp_path: Path, junk: bytes) -> None:
    """A tail of zeros, as an extended file has, or anything else."""
    segment = fill(tmp_path)
    before = contents(tmp_path)
    segment.log_path.write_bytes(before[0] + junk)

    cut = load_segment(tmp_path, CONFIG).recover()

    assert cut == len(junk)
    assert contents(tmp_path) == before


def legacy_message(offset: int, magic: int) -> bytes:
    """Return a message as a Kafka before 0.11 wrote it, without key, with a value."""
    timestamp = b"" if magic == 0 else (1_500_000_000_000).to_bytes(8, "big")
    body = bytes([magic, 0]) + timestamp + b"\xff\xff\xff\xff" + (3).to_bytes(4, "big") + b"old"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("magic", [0, 1])
def test_sound_messages_of_an_old_kafka_are_not_cut(tmp_path: Path, magic: int) -> None:
    """We cannot read them, but they are somebody's data: refuse, and touch nothing."""
    segment = make_segment(tmp_path, CONFIG)
    segment.close()
    old = b"".join(legacy_message(offset, magic) for offset in range(5))
    segment.log_path.write_bytes(old)
    before = contents(tmp_path)

    with pytest.raises(LegacyFormatError, match=f"format {magic}"):
        load_segment(tmp_path, CONFIG).recover()
    assert contents(tmp_path) == before

    segment.log_path.write_bytes(old[:17] + b"?" + old[18:])
    assert load_segment(tmp_path, CONFIG).recover() == len(old)


def test_offsets_that_go_back_end_the_log(tmp_path: Path) -> None:
    """A sound batch at the wrong place is no continuation."""
    written = make_segment(tmp_path, CONFIG)
    for base in (0, 5, 3, 8):
        append(written, make_batch(2, base_offset=base))
    written.close()

    reopened = load_segment(tmp_path, CONFIG)
    reopened.recover()

    assert reopened.next_offset() == 7


def test_empty_and_damaged_from_the_start(tmp_path: Path) -> None:
    """A segment may end up empty, and can be appended to."""
    written = make_segment(tmp_path, CONFIG)
    written.close()
    assert load_segment(tmp_path, CONFIG).recover() == 0

    written.log_path.write_bytes(b"junk" * 100)
    reopened = load_segment(tmp_path, CONFIG)
    assert reopened.recover() == 400
    append_next(reopened, [make_batch(timestamp=9)])
    reopened.close()
    assert reopened.next_offset() == 1
    assert reopened.max_timestamp == 9


def test_batches_larger_than_a_chunk(tmp_path: Path) -> None:
    """The scan reads 1 MiB at once; a batch may be larger."""
    written = make_segment(tmp_path, CONFIG)
    sizes = [10, 1_200_000, 10, 3_000_000, 700_000, 700_000, 10]
    append_next(written, [make_batch(make_rows(1, size=size)) for size in sizes])
    written.close()
    before = contents(tmp_path)

    reopened = load_segment(tmp_path, CONFIG)

    assert reopened.recover() == 0
    assert contents(tmp_path) == before
    written.log_path.write_bytes(before[0][:-700_100])
    assert load_segment(tmp_path, CONFIG).recover() > 0
    assert load_segment(tmp_path, CONFIG).next_offset() == 5


def test_more_index_entries_than_one_call_returns(tmp_path: Path) -> None:
    """The kernel's arrays are small; it is called again where it stopped."""
    config = TopicConfig(index_interval_bytes=0)
    written = make_segment(tmp_path, config)
    append_next(written, [make_producer_batch(n) for n in range(6000)])
    written.close()
    before = contents(tmp_path)
    producers = producers_of(tmp_path)

    load_segment(tmp_path, config).recover(producers)

    assert contents(tmp_path) == before
    assert producers.producers[4000].next_sequence == 6000


def test_epochs_and_producers_are_fed(tmp_path: Path) -> None:
    """Leader epochs, the last batches of producers, open transactions and aborted ones."""
    written = make_segment(tmp_path, CONFIG)
    append_next(written, [make_batch(5)], leader_epoch=2)
    append_next(written, [make_batch(5)], first=5, leader_epoch=4)
    ours = {"producer_id": 4000, "producer_epoch": 0}
    append(written, make_batch(5, base_offset=10, flags=0x10, base_sequence=0, **ours))
    append(written, build_marker(15, 1000, ABORT, 7, **ours))
    append(written, make_batch(1, base_offset=16, flags=0x10, base_sequence=5, **ours))
    written.close()
    epochs, producers = LeaderEpochs(tmp_path), producers_of(tmp_path)

    reopened = load_segment(tmp_path, CONFIG)
    reopened.recover(producers, epochs.note)

    assert epochs.entries == ((2, 0), (4, 5))
    assert not (tmp_path / "leader-epoch-checkpoint").exists()
    entry = producers.producers[4000]
    assert [batch.first_offset for batch in entry.batches] == [10, 16]
    assert entry.coordinator_epoch == 7
    assert producers.first_unstable_offset == 16
    assert producers.map_end_offset == 17
    assert reopened.all_aborted_transactions() == [AbortedTransaction(4000, 10, 15, 16)]


def test_stale_transaction_index_is_replaced(tmp_path: Path) -> None:
    """Entries whose markers were cut go, and with the last one the file."""
    segment = fill(tmp_path)
    segment.append_aborted(AbortedTransaction(1, 2, 3, 4))

    reopened = load_segment(tmp_path, CONFIG)
    reopened.recover()
    assert reopened.all_aborted_transactions() != []
    reopened.recover(producers_of(tmp_path))

    assert not (tmp_path / "00000000000000000000.txnindex").exists()
