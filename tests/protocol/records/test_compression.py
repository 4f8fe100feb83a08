"""The codecs: both directions, foreign variants, caps and junk."""

import random
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.compression import (
    GZIP,
    LZ4,
    MAX_RATIO,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
)

PACKED = (GZIP, SNAPPY, LZ4, ZSTD)
MIXED = random.Random(7).randbytes(100_000) + bytes(100_000)
MIB = 1 << 20


@given(st.binary(max_size=2000), st.sampled_from((NONE, *PACKED)))
def test_round_trip(data: bytes, codec: int) -> None:
    """Every codec gives back what it got, from any buffer."""
    packed = compress(codec, bytearray(data))

    assert decompress(codec, memoryview(packed), len(data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_large_round_trip(codec: int) -> None:
    """More than a block of each codec."""
    assert decompress(codec, compress(codec, MIXED)) == MIXED


@pytest.mark.parametrize("codec", [NONE, *PACKED])
def test_the_cap_is_exact(codec: int) -> None:
    """Output of the cap's size passes, one byte more is refused."""
    packed = compress(codec, MIXED)

    assert decompress(codec, packed, len(MIXED)) == MIXED
    with pytest.raises(InvalidRecord, match=f"more than {len(MIXED) - 1} bytes"):
        decompress(codec, packed, len(MIXED) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_costs_no_more_than_the_cap(codec: int) -> None:
    """64 MiB of zeros are given up at the cap, not after they were unfolded."""
    packed = compress(codec, bytes(64 * MIB))
    tracemalloc.start()

    with pytest.raises(InvalidRecord):
        decompress(codec, packed, MIB)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_stream_is_corrupt(codec: int, share: float) -> None:
    """Data that ends in the middle is not taken for less."""
    packed = compress(codec, MIXED)

    with pytest.raises(CorruptMessage):
        decompress(codec, packed[: int(len(packed) * share)])


@pytest.mark.parametrize("codec", PACKED)
def test_a_tail_is_corrupt(codec: int) -> None:
    """Bytes after the stream belong to nobody."""
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, MIXED) + b"\x01")


@given(st.binary(max_size=200), st.sampled_from(PACKED))
def test_junk_is_corrupt_or_refused(junk: bytes, codec: int) -> None:
    """No bytes raise anything else than the two errors that a client understands."""
    with suppress(CorruptMessage, InvalidRecord):
        decompress(codec, junk, 1000)


@given(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from(PACKED))
def test_a_flipped_byte_is_an_answer(position: int, byte: int, codec: int) -> None:
    """A damaged stream gives data or one of the two errors."""
    packed = bytearray(compress(codec, MIXED[99_000:110_000]))
    packed[position % len(packed)] = byte

    with suppress(CorruptMessage, InvalidRecord):
        decompress(codec, packed, 20_000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """Kafka fails on them in a way of its own; we say what is wrong."""
    with pytest.raises(InvalidRecord, match=f"no compression codec {codec}"):
        decompress(codec, b"x")


def test_concatenated_gzip_members_are_one_stream() -> None:
    """Java's reader goes on after a member, so do we; empty members cost nothing."""
    empty = compress(GZIP, b"")

    assert decompress(GZIP, compress(GZIP, b"one") + empty * 5000 + compress(GZIP, b"two")) == (
        b"onetwo"
    )


def test_zlib_without_the_gzip_header_is_corrupt() -> None:
    """Kafka's gzip is RFC 1952."""
    with pytest.raises(CorruptMessage):
        decompress(GZIP, zlib.compress(b"data"))


def test_raw_snappy_is_read() -> None:
    """Some clients (librdkafka) write one block without the xerial header."""
    assert decompress(SNAPPY, snappy.compress(MIXED)) == MIXED


def test_xerial_snappy_as_java_writes_it() -> None:
    """Magic, two versions, then blocks of 32 KiB with big-endian lengths."""
    packed = compress(SNAPPY, bytes(70_000))
    first = int.from_bytes(packed[16:20], "big")

    assert packed[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    assert len(snappy.uncompress(packed[20 : 20 + first])) == 32 << 10


def test_xerial_blocks_of_any_size_are_read() -> None:
    """The block size is the writer's choice."""
    head = bytes.fromhex("82534e4150505900 00000001 00000001")
    blocks = [snappy.compress(part) for part in (b"a" * 100_000, b"", b"b")]
    packed = head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)

    assert decompress(SNAPPY, packed) == b"a" * 100_000 + b"b"


def test_a_lying_snappy_preamble_allocates_nothing() -> None:
    """Ten bytes that promise 4 GiB are junk before anything is allocated."""
    with pytest.raises(CorruptMessage, match="cannot hold"):
        decompress(SNAPPY, bytes.fromhex("ffffffff0f") + bytes(5))


HOSTILE_SNAPPY = {
    "a chunk of 2 GiB": "82534e4150505900 00000001 00000001 7fffffff 00",
    "a chunk of 4 GiB": "82534e4150505900 00000001 00000001 ffffffff 00",
    "a chunk without bytes": "82534e4150505900 00000001 00000001 00000000",
    "half a length": "82534e4150505900 00000001 00000001 7fff",
    "half a header": "82534e4150505900 00000001",
    "a chunk that unfolds to 4 GiB": "82534e4150505900 00000001 00000001 00000006 ffffffff0f 00",
    "a second chunk of 2 GiB": "82534e4150505900 00000001 00000001 00000003 01 00 61 7fffffff",
    "a block that unfolds to 4 GiB": "ffffffff0f 00",
}
"""Lengths that no honest writer states, with nothing of the kind behind them."""


@pytest.mark.parametrize("data", HOSTILE_SNAPPY.values(), ids=HOSTILE_SNAPPY.keys())
def test_cve_2023_34455_a_snappy_length_sets_nothing_aside(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library, which would make room for it, is never asked."""
    given: list[bytes] = []
    real = snappy.uncompress

    def uncompress(block: bytes) -> bytes:
        given.append(block)
        unfolded: bytes = real(block)
        return unfolded

    monkeypatch.setattr(snappy, "uncompress", uncompress)
    with pytest.raises(CorruptMessage):
        decompress(SNAPPY, bytes.fromhex(data))

    assert given in ([], [b"\x01\x00a"])


def test_lz4_frame_as_java_writes_it() -> None:
    """Version 1, independent blocks of 64 KiB, no checksums, no content size."""
    assert compress(LZ4, b"data")[:6] == bytes.fromhex("04224d18 60 40")


@pytest.mark.parametrize("level", [1, 9, 12, 17, None])
def test_lz4_takes_all_of_kafkas_levels(level: int | None) -> None:
    """9 means the fast compressor; levels that lz4 does not know are held within its range."""
    assert decompress(LZ4, compress(LZ4, MIXED, level)) == MIXED


@given(st.binary(max_size=300), st.integers(1, 1000))
def test_our_lz4_is_lz4(text: bytes, times: int) -> None:
    """The reference reads what we write, with its blocks that did not shrink."""
    assert lz4.frame.decompress(compress(LZ4, text * times)) == text * times


class EarlyBlocks:
    """A packer of the library that ends a block after 100 bytes."""

    checks = True

    def __init__(self, *_: object, **__: object) -> None:
        self._packer = lz4.frame.LZ4FrameCompressor(
            block_linked=False, block_checksum=self.checks, auto_flush=True, block_size=4
        )
        self._made = self._packer.begin()

    def compress(self, data: bytes) -> None:
        """Pack two blocks."""
        self._made += self._packer.compress(data[:100]) + self._packer.compress(data[100:])

    def finish(self) -> bytes:
        """Return the frame."""
        packed: bytes = self._made + self._packer.flush()
        return packed


def test_all_blocks_that_the_library_packs_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cramjam before 2.14 ends a block before it is full: nothing of what follows is lost."""
    monkeypatch.setattr(cramjam.lz4, "Compressor", EarlyBlocks)

    assert decompress(LZ4, compress(LZ4, b"abc" * 1000)) == b"abc" * 1000


def test_a_library_that_packs_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks would be put together wrongly."""
    monkeypatch.setattr(cramjam.lz4, "Compressor", EarlyBlocks)
    monkeypatch.setattr(EarlyBlocks, "checks", False)

    with pytest.raises(RuntimeError, match=r"install 2\.14"):
        compress(LZ4, b"abc")


def frame_of(data: bytes, size: int, *flags: str) -> bytes:
    """Return a frame as another writer makes it."""
    made: bytes = lz4.frame.compress(
        data, block_linked=False, block_size=size, store_size="content_size" in flags,
        content_checksum="content_checksum" in flags, block_checksum="block_checksum" in flags,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("size", [4, 5, 6, 7])
@pytest.mark.parametrize("has_size", ["", "content_size"])
@pytest.mark.parametrize("has_checksum", ["", "content_checksum"])
@pytest.mark.parametrize("has_checksums", ["", "block_checksum"])
def test_lz4_of_other_writers_is_read(
    size: int, has_size: str, has_checksum: str, has_checksums: str
) -> None:
    """Blocks of 64 KiB to 4 MiB, with or without each field that a frame may have."""
    data = MIXED * 25

    assert decompress(LZ4, frame_of(data, size, has_size, has_checksum, has_checksums)) == data


@pytest.mark.parametrize("flags", ["content_size", "content_checksum", "block_checksum"])
def test_lz4_cut_anywhere_is_corrupt(flags: str) -> None:
    """Each byte of a frame is needed."""
    packed = frame_of(b"abc" * 50, 4, flags)

    for length in range(len(packed)):
        with pytest.raises(CorruptMessage):
            decompress(LZ4, packed[:length])


@pytest.mark.parametrize(
    ("flags", "position"),
    [("", 0), ("", 4), ("", 5), ("", 6), ("content_size", 6), ("content_size", 14),
     ("block_checksum", -6)],
)  # fmt: skip
def test_a_wrong_byte_of_an_lz4_frame_is_corrupt(flags: str, position: int) -> None:
    """Magic, flags, block size, content size, and the checksums of header and block."""
    packed = bytearray(frame_of(b"abc" * 50, 4, flags))
    packed[position] ^= 1

    with pytest.raises(CorruptMessage):
        decompress(LZ4, packed)


def test_an_lz4_frame_that_lies_about_its_size_is_corrupt() -> None:
    """The header, whose checksum is right, says another size than the blocks have."""
    honest, other = (frame_of(b"abc" * count, 4, "content_size") for count in (50, 51))

    with pytest.raises(CorruptMessage, match="more or fewer"):
        decompress(LZ4, other[:15] + honest[15:])


def test_an_lz4_block_larger_than_the_header_says_is_corrupt() -> None:
    """A block of 4 MiB in a frame of 64 KiB blocks, packed or not."""
    for data in (bytes(MIB), MIXED):
        small, large = frame_of(b"a", 4), frame_of(data, 7)

        with pytest.raises(CorruptMessage):
            decompress(LZ4, small[:7] + large[7:])


def test_lz4_takes_room_only_for_what_unfolds() -> None:
    """Blocks that may have 4 MiB, and have little, cost little."""
    packed = frame_of(b"abc" * 50, 7)
    tracemalloc.start()

    decompress(LZ4, packed)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 10


def test_linked_lz4_blocks_are_refused() -> None:
    """Java's reader cannot read them, so a topic must not hold them."""
    with pytest.raises(CorruptMessage, match="independent"):
        decompress(LZ4, lz4.frame.compress(MIXED, block_linked=True))


@pytest.mark.parametrize("level", [-131_072, -1, 1, 22])
def test_zstd_takes_all_of_kafkas_levels(level: int) -> None:
    """Negative levels too."""
    assert decompress(ZSTD, compress(ZSTD, b"data" * 100, level)) == b"data" * 100


@pytest.mark.parametrize("has_size", [False, True])
@pytest.mark.parametrize("has_checksum", [False, True])
def test_zstd_frames_of_other_writers(has_size: bool, has_checksum: bool) -> None:
    """Without content size, as a stream writes it; with a checksum."""
    packer = zstandard.ZstdCompressor(write_content_size=has_size, write_checksum=has_checksum)

    assert decompress(ZSTD, packer.compress(MIXED)) == MIXED


def test_zstd_frames_follow_each_other() -> None:
    """Frames are read until the data ends, skippable ones are stepped over."""
    skippable = bytes.fromhex("502a4d18 03000000 616263")

    assert decompress(ZSTD, compress(ZSTD, b"one") + skippable + compress(ZSTD, b"two")) == (
        b"onetwo"
    )


def test_a_wrong_zstd_checksum_is_corrupt() -> None:
    """The checksum of the content is verified."""
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"data"))
    packed[-1] ^= 1

    with pytest.raises(CorruptMessage):
        decompress(ZSTD, packed)


@pytest.mark.parametrize("codec", PACKED)
def test_no_stream_beats_the_stated_ratio(codec: int) -> None:
    """The bound that refuses impossible counts holds for the best case of each codec."""
    size = 16 * MIB

    assert size <= len(compress(codec, bytes(size))) * MAX_RATIO[codec]


def test_zstd_goes_on_after_junk() -> None:
    """A context that met junk, or a bomb, does not spoil the next batch of any thread."""
    texts = [b"%d " % number * 3000 for number in range(40)]
    packed = [compress(ZSTD, text) for text in texts]

    def unpack(number: int) -> bytes:
        for _ in range(20):
            with pytest.raises(CorruptMessage):
                decompress(ZSTD, packed[number][:-3])
            with pytest.raises(InvalidRecord):
                decompress(ZSTD, packed[number], 100)
        assert compress(ZSTD, texts[number]) == packed[number]
        return decompress(ZSTD, packed[number])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(unpack, range(len(texts)))) == texts
