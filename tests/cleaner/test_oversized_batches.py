"""Batches that unfold to much: what the cleaner opens and leaves alone, what stays in memory."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.cleaner.errors import UnopenedBatch
from siltstone.protocol.records.compression import GZIP, LZ4, MAX_DECOMPRESSED_BYTES, SNAPPY, ZSTD
from tests.support.appending import append_unchecked
from tests.support.cleaner import CleanerHome
from tests.support.logs import bytes_of
from tests.support.passes import CompactedFolder, content

MIB = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    """Count the memory that Python's objects take."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_is_not_opened(tmp_path: Path, codec: int) -> None:
    """The log is left as it is, every record of it, and the reason names batch and limit."""
    folder = CompactedFolder(tmp_path)
    folder.write((b"a", b"1"), (b"b", b"1"))
    at = folder.write((b"a", bytes(MAX_DECOMPRESSED_BYTES)), codec=codec)
    folder.write((b"b", b"2"))
    folder.roll()
    before = content(folder.log)
    tracemalloc.start()

    with pytest.raises(UnopenedBatch) as caught:
        folder.clean()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert content(folder.log) == before
    assert caught.value.offset == at
    assert f"unfolds to more than {MAX_DECOMPRESSED_BYTES} bytes" in str(caught.value)
    assert "cleanup.policy=compact,delete" in str(caught.value)
    assert peak < 3 * MAX_DECOMPRESSED_BYTES


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_record_above_its_limit_is_not_opened(tmp_path: Path, codec: int) -> None:
    """As in Apache Kafka 4.4.0: max.decompressed.message.bytes counts for the cleaner, too."""
    folder = CompactedFolder(tmp_path)
    folder.write((b"a", b"1"))
    at = folder.write((b"a", bytes(2000)), codec=codec)
    folder.roll()
    before = content(folder.log)
    config = folder.log.config
    folder.log.reconfigure(replace(config, max_decompressed_message_bytes=1000))

    with pytest.raises(UnopenedBatch, match=r"max\.decompressed\.message\.bytes is 1000") as caught:
        folder.clean()

    assert content(folder.log) == before
    assert caught.value.offset == at
    folder.log.reconfigure(config)
    folder.clean()
    assert folder.offsets() == [at]


def test_what_is_opened_does_not_stay(tmp_path: Path, traced: None) -> None:
    """A pass over a batch near the limit takes a few times as much, and gives all of it back."""
    folder = CompactedFolder(tmp_path)
    folder.write((b"a", b"1"))
    folder.write((b"a", None), (b"b", bytes(60 * MIB)), codec=ZSTD)
    folder.roll()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()

    folder.clean()

    after, peak = tracemalloc.get_traced_memory()
    assert folder.offsets() == [1, 2]
    assert after - before < MIB
    assert peak - before < 4 * 60 * MIB


def test_a_pass_that_fails_keeps_nothing(tmp_path: Path, traced: None) -> None:
    """Buffers that grew for a batch shrink, however the pass ends."""
    folder = CompactedFolder(tmp_path)
    folder.write((b"a", bytes(20 * MIB)))
    folder.write((b"a", bytes(MAX_DECOMPRESSED_BYTES)), codec=ZSTD)
    folder.roll()
    before = tracemalloc.get_traced_memory()[0]

    with pytest.raises(UnopenedBatch):
        folder.clean()

    assert tracemalloc.get_traced_memory()[0] - before < MIB


def test_a_log_with_a_bomb_is_set_aside(tmp_path: Path) -> None:
    """Other logs are cleaned; why this one is not can be asked for."""
    home = CleanerHome(tmp_path)
    bad, good = home.create("bad"), home.create("good")
    append_unchecked(bad, [(b"k", bytes(MAX_DECOMPRESSED_BYTES))], codec=ZSTD)
    for log in (bad, good):
        home.fill(log, 3)
    before = bytes_of(bad, 0)

    while home.thread.step():
        pass

    failure = home.manager.failure(bad.topic_partition)
    assert failure is not None
    assert failure.cause == "UnopenedBatch"
    assert "unfolds to more than" in failure.reason
    assert home.manager.failure(good.topic_partition) is None
    assert bytes_of(bad, 0) == before
    home.close()
