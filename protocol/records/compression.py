"""The five codecs of a record batch (Kafka's CompressionType): ids, names, and both directions.

`unfold` trusts no size that the data states: the caller's cap limits the output, and memory grows
only with the output. `decompress` returns the whole output at once, up to one limit for the whole
broker. The codecs are C libraries that work without the GIL, and are imported when first used
(docs/decisions/0012-the-codecs.md). Layouts are those of the Java client: gzip members
(concatenated members are read too), snappy as xerial blocks (a raw block, as librdkafka writes it,
is read too), LZ4 frames of independent 64 KiB blocks, and zstd frames.
"""

import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.errors import CorruptMessage, InvalidRecord

if TYPE_CHECKING:
    from types import ModuleType

    from typing_extensions import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

MAX_DECOMPRESSED_BYTES: Final = 64 << 20
"""The most bytes of an unfolded batch, wherever one is opened: to be stored, cleaned, looked up by
time, read back as a journal, handed to Spark. It is 64 times the default max.message.bytes; Kafka
has no such limit. Tools that need one record at a time have no limit (`UNLIMITED`).
"""

UNLIMITED: Final = 1 << 62
"""The cap of callers that keep no more than one record of a batch in memory."""

MAX_RATIO: Final = (1, 1032, 22, 255, 43_691)
"""Output bytes that one input byte can stand for at most, by codec: deflate's 258 bytes in two
bits, snappy's 64 in three bytes, lz4's length bytes of 255, zstd's 128 KiB block in three bytes."""

_GZIP_WINDOW = zlib.MAX_WBITS | 16
_CHUNK = 1 << 18

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK = 32 << 10

_LZ4_FAST_LEVELS = (None, 9)
_LZ4_HIGH_LEVELS = (3, 12)
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK = 64 << 10
_LZ4_FLAGS = 0x60
_LZ4_STORED = 1 << 31
_LZ4_BLOCK_CHECKSUM = 0x10
_LZ4_CONTENT_SIZE = 0x08
_LZ4_CONTENT_CHECKSUM = 0x04
_LZ4_SIZES = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}
_UINT32 = (1 << 32) - 1
_ZSTD_LEVEL = 3

# Creating a zstd compressor costs as much as packing a batch of some KiB, so idle ones are kept
# here. One in use is not in the list. Removing and adding are atomic, so any thread may do it.
_packers: "list[Any]" = []


def compress(codec: int, data: "Buffer", level: int | None = None) -> bytes:
    """Return `data` compressed by `codec` at Kafka's `level`; None is the codec's own default."""
    if codec == NONE:
        return bytes(data)
    return _COMPRESS[codec](memoryview(data), level)


def decompress(codec: int, data: "Buffer", cap: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return `data` unfolded, `cap` bytes at most.

    Raises:
        CorruptMessage: the data is not what the codec writes, is cut short or has a tail.
        InvalidRecord: the codec does not exist, or (`UnfoldsTooFar`) the output is larger than
        `cap`.
    """
    if codec == NONE:
        if memoryview(data).nbytes > cap:
            raise _too_large(cap)
        return bytes(data)
    parts = list(unfold(codec, data, cap))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def unfold(codec: int, data: "Buffer", cap: int = MAX_DECOMPRESSED_BYTES) -> "Iterator[bytes]":
    """Yield `data` unfolded in parts; together these have `cap` bytes at most.

    A part has 256 KiB at most. Only a snappy block may be larger, since its writer chose the size.
    A block above `MAX_DECOMPRESSED_BYTES` is refused with any cap.

    Raises:
        CorruptMessage: the data is not what the codec writes, is cut short or has a tail.
        InvalidRecord: the codec does not exist, or (`UnfoldsTooFar`) the output is larger than
        `cap`.
    """
    view = memoryview(data)
    if codec == NONE:
        if len(view) > cap:
            raise _too_large(cap)
        yield bytes(view)
        return
    if codec not in _UNFOLD:
        raise InvalidRecord(f"there is no compression codec {codec}; Kafka has 0 to 4")
    room = cap
    for part in _UNFOLD[codec](view, cap):
        room -= len(part)
        if room < 0:
            raise _too_large(cap)
        yield part


class UnfoldsTooFar(InvalidRecord):
    """The output is larger than the cap, or a record in it than its limit."""


def _too_large(cap: int) -> UnfoldsTooFar:
    return UnfoldsTooFar(
        f"the batch unfolds to more than {cap} bytes; send smaller batches or less repetition"
    )


def _junk(codec: int, reason: object) -> CorruptMessage:
    return CorruptMessage(f"the records of the batch are not valid {NAMES[codec]}: {reason}")


def _gzip(data: memoryview, level: int | None) -> bytes:
    packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _gunzip(data: memoryview, cap: int) -> "Iterator[bytes]":
    """Read all members. The window doubles, so that thousands of tiny members cost linear time.

    zlib joins its output while it holds the GIL, so it is asked for a little at a time.
    """
    room = cap
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW)
        window = 512
        while not member.eof:
            if position == len(data):
                raise _junk(GZIP, "it is cut short")
            chunk = data[position : position + window]
            try:
                part = member.decompress(chunk, min(room + 1, _CHUNK))
            except zlib.error as error:
                raise _junk(GZIP, error) from error
            room -= len(part)
            yield part
            position += len(chunk) - len(member.unconsumed_tail) - len(member.unused_data)
            window = min(window * 2, _CHUNK)
        if position == len(data):
            return


def _snappy(data: memoryview, level: int | None) -> bytes:  # noqa: ARG001 - snappy has no levels
    import snappy  # noqa: PLC0415 - loaded when first used

    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = snappy.compress(bytes(data[start : start + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(data: memoryview, cap: int) -> "Iterator[bytes]":
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _unsnappy_block(data, cap, cap)
        return
    if len(data) < len(_XERIAL_HEADER):
        raise _junk(SNAPPY, "its header is cut short")
    room = cap
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if not start < position <= len(data):
            raise _junk(SNAPPY, "a block is longer than the data")
        part = _unsnappy_block(data[start:position], room, cap)
        room -= len(part)
        yield part


def _unsnappy_block(block: memoryview, room: int, cap: int) -> bytes:
    """Decompress one raw block.

    The library allocates the size that the block states, so the size is checked first.
    """
    import snappy  # noqa: PLC0415 - loaded when first used

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(block) * MAX_RATIO[SNAPPY]:
        raise _junk(SNAPPY, f"{len(block)} bytes cannot hold {size}")
    if size > min(room, MAX_DECOMPRESSED_BYTES):
        raise _too_large(min(cap, MAX_DECOMPRESSED_BYTES))
    try:
        part: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise _junk(SNAPPY, error) from error
    return part


def _lz4(data: memoryview, level: int | None) -> bytes:
    """Write a frame without checksums or content size, of independent blocks of 64 KiB.

    The library's own frame has a checksum for each block, which Java's writer does not add.
    Kafka's level 9 means lz4's fast compressor, others the high one.
    """
    import cramjam  # noqa: PLC0415 - loaded when first used

    low, high = _LZ4_HIGH_LEVELS
    height = 0 if level in _LZ4_FAST_LEVELS else max(low, min(level or 0, high))
    packer = cramjam.lz4.Compressor(height, content_checksum=False, block_linked=False)
    packer.compress(bytes(data))
    frame = memoryview(packer.finish())
    if _read_lz4_header(bytes(frame[:7])) != (_LZ4_FLAGS | _LZ4_BLOCK_CHECKSUM, _LZ4_BLOCK):
        raise RuntimeError(f"cramjam {cramjam.__version__} packs lz4 in another way: install 2.14")
    blocks = [frame[start - 4 : end] for start, end in _find_lz4_blocks(frame)]
    return b"".join((_LZ4_HEADER, *blocks, bytes(4)))


def _unlz4(data: memoryview, cap: int) -> "Iterator[bytes]":  # noqa: ARG001 - a block has a limit
    """Read one frame; linked blocks are refused, because Java's reader cannot read them.

    A checksum of the whole content is not compared, as in Java's reader.
    """
    flags, largest = _read_lz4_header(bytes(data[: _lz4_header_size(data)]))
    room = bytearray(min(8 * len(data), largest))
    unfolded = 0
    for start, end in _find_lz4_blocks(data):
        block: Buffer = data[start:end]
        if end - start > largest:
            raise _junk(LZ4, "a block is too large for its header")
        if flags & _LZ4_BLOCK_CHECKSUM:
            block = _unlz4_checked(data[start - 4 : end + 4], data[5])
        elif data[start - 1] < _LZ4_STORED >> 24:
            room, written = _unlz4_block(block, room, largest)
            block = memoryview(room)[:written]
        view = memoryview(block)
        unfolded += len(view)
        for begin in range(0, len(view), _CHUNK):
            yield bytes(view[begin : begin + _CHUNK])
    if flags & _LZ4_CONTENT_SIZE and data[6:14] != unfolded.to_bytes(8, "little"):
        raise _junk(LZ4, "it has more or fewer bytes than its header says")


def _find_lz4_blocks(frame: memoryview) -> "Iterator[tuple[int, int]]":
    """Yield where each block begins and ends, without its length and checksum."""
    position = _lz4_header_size(frame)
    while head := int.from_bytes(frame[position : position + 4], "little"):
        start = position + 4
        end = start + (head & ~_LZ4_STORED)
        position = end + (4 if frame[4] & _LZ4_BLOCK_CHECKSUM else 0)
        if position > len(frame):
            raise _junk(LZ4, "it is cut short")
        yield start, end
    if position + (8 if frame[4] & _LZ4_CONTENT_CHECKSUM else 4) != len(frame):
        raise _junk(LZ4, "it is cut short, or bytes follow the frame")


def _unlz4_block(block: "Buffer", room: bytearray, largest: int) -> tuple[bytearray, int]:
    """Decompress a block into `room`, or more if it needs more; return that, and what it filled."""
    import cramjam  # noqa: PLC0415 - loaded when first used

    while True:
        try:
            return room, cramjam.lz4.decompress_block_into(block, room)
        except cramjam.DecompressionError as error:
            if len(room) >= largest:
                raise _junk(LZ4, error) from error
        room = bytearray(min(4 * len(room), largest))


def _unlz4_checked(block: memoryview, sizes: int) -> "Buffer":
    """Decompress a block that has its length and checksum with it, as a frame of its own."""
    import cramjam  # noqa: PLC0415 - loaded when first used

    descriptor = bytes((0x70, sizes))
    head = (_LZ4_MAGIC, descriptor, bytes((_check_byte(descriptor),)))
    try:
        return cramjam.lz4.decompress(b"".join((*head, block, bytes(4))))
    except cramjam.DecompressionError as error:
        raise _junk(LZ4, error) from error


def _lz4_header_size(frame: "Sequence[int]") -> int:
    return 15 if len(frame) > 4 and frame[4] & _LZ4_CONTENT_SIZE else 7


@lru_cache(64)
def _read_lz4_header(head: bytes) -> tuple[int, int]:
    """Return a frame's flags and the size that its blocks may have."""
    if len(head) < 7 or head[:4] != _LZ4_MAGIC or head[4] & 0xE3 != _LZ4_FLAGS:
        raise _junk(LZ4, "it is no frame of version 1 with independent blocks")
    if head[5] not in _LZ4_SIZES or head[-1] != _check_byte(head[4:-1]):
        raise _junk(LZ4, "the checksum or the block size of its header is wrong")
    return head[4], _LZ4_SIZES[head[5]]


def _check_byte(descriptor: bytes) -> int:
    """Return the last byte of an lz4 header: the second of the xxh32 of what is before it.

    A descriptor has 2 or 10 bytes; xxh32 takes fewer than 16 without rounds.
    """
    whole = len(descriptor) & ~3
    mixed = 374_761_393 + len(descriptor)
    for (word,) in struct.iter_unpack("<I", descriptor[:whole]):
        mixed = _turn(mixed + word * 3_266_489_917, 17) * 668_265_263
    for byte in descriptor[whole:]:
        mixed = _turn(mixed + byte * 374_761_393, 11) * 2_654_435_761
    mixed &= _UINT32
    for shift, factor in ((15, 2_246_822_519), (13, 3_266_489_917), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & _UINT32
    return mixed >> 8 & 0xFF


def _turn(word: int, bits: int) -> int:
    word &= _UINT32
    return word << bits | word >> 32 - bits


def _load_zstd() -> "ModuleType":
    """Return the module of Python's own library, or what is that for older ones."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - loaded when first used
    else:
        from backports import zstd  # noqa: PLC0415 - loaded when first used
    return zstd


def _zstd(data: memoryview, level: int | None) -> bytes:
    zstd = _load_zstd()
    if level not in {None, _ZSTD_LEVEL}:
        packed: bytes = zstd.compress(data, level)
        return packed
    packer = _packers.pop() if _packers else zstd.ZstdCompressor(_ZSTD_LEVEL)
    packed = packer.compress(data, packer.FLUSH_FRAME)
    _packers.append(packer)
    return packed


def _unzstd(data: memoryview, cap: int) -> "Iterator[bytes]":
    """Read all frames. A decompressor is for one, and is given that alone: it copies the rest."""
    zstd = _load_zstd()
    room = cap
    try:
        while True:
            size = zstd.get_frame_size(data)
            frame = zstd.ZstdDecompressor()
            feed: Buffer = data[:size]
            while not frame.eof:
                part = frame.decompress(feed, min(room + 1, _CHUNK))
                room -= len(part)
                if part:
                    yield part
                elif not frame.eof:
                    raise _junk(ZSTD, "it is cut short")
                feed = b""
            data = data[size:]
            if not data:
                return
    except zstd.ZstdError as error:
        raise _junk(ZSTD, error) from error


_COMPRESS = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
_UNFOLD = {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unlz4, ZSTD: _unzstd}
