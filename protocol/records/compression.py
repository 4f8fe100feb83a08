"""The five codecs of a record batch (Kafka's CompressionType): ids, names, and both directions.

`unfold` trusts no size that the data states: the caller's cap limits the output, and memory grows
only with the output. `decompress` returns the whole output at once, up to one limit for the whole
broker. The codecs are C libraries that work without the GIL, and are imported when first used
(docs/decisions/0012-the-codecs.md). Layouts are those of the Java client: gzip members
(concatenated members are read too), snappy as xerial blocks (a raw block, as librdkafka writes it,
is read too), LZ4 frames of independent 64 KiB blocks, and zstd frames.
"""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.protocol.errors import CorruptMessage, InvalidRecord

if TYPE_CHECKING:
    import zstandard
    from typing_extensions import Buffer

    _Context = TypeVar("_Context", zstandard.ZstdCompressor, zstandard.ZstdDecompressor)

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
_ZSTD_LEVEL = 3
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"

# Creating a zstd context costs as much as opening a batch of 16 KiB, so idle contexts are kept
# here. A context in use is in no list. Removing and adding a context are atomic, so any thread may
# do it.
_packers: "list[zstandard.ZstdCompressor]" = []
_unpackers: "list[zstandard.ZstdDecompressor]" = []
_KEPT_CONTEXT_BYTES = 8 << 20


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

    parts = [_XERIAL_HEADER]
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
        raise _junk(SNAPPY, error.__cause__ or error) from error
    return part


def _lz4(data: memoryview, level: int | None) -> bytes:
    """Write FLG 0x60, BD 0x40. Kafka's level 9 means lz4's fast compressor, others the high one."""
    import lz4.frame  # noqa: PLC0415 - loaded when first used

    low, high = _LZ4_HIGH_LEVELS
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in _LZ4_FAST_LEVELS else max(low, min(level or 0, high)),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )
    return frame


def _unlz4(data: memoryview, cap: int) -> "Iterator[bytes]":
    """Read one frame; linked blocks are refused, because Java's reader cannot read them."""
    import lz4.frame  # noqa: PLC0415 - loaded when first used

    if len(data) < 7 or data[4] & 0xE0 != 0x60:
        raise _junk(LZ4, "it is no frame of version 1 with independent blocks")
    frame = lz4.frame.LZ4FrameDecompressor()
    room = cap
    feed: Buffer = data
    while not frame.eof:
        try:
            part = frame.decompress(feed, max_length=min(room + 1, _CHUNK))
        except RuntimeError as error:
            raise _junk(LZ4, error) from error
        room -= len(part)
        if not part and not frame.eof:
            raise _junk(LZ4, "it is cut short")
        yield part
        feed = b""
    if frame.unused_data:
        raise _junk(LZ4, "bytes follow the frame")


def _zstd(data: memoryview, level: int | None) -> bytes:
    import zstandard  # noqa: PLC0415 - loaded when first used

    if level not in {None, _ZSTD_LEVEL}:
        return zstandard.ZstdCompressor(level=level).compress(data)
    packer = _packers.pop() if _packers else zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    packed = packer.compress(data)
    _keep(_packers, packer)
    return packed


def _unzstd(data: memoryview, cap: int) -> "Iterator[bytes]":
    """Read all frames. They are checked first: the library does not report a frame that is cut."""
    import zstandard  # noqa: PLC0415 - loaded when first used

    room = cap
    unpacker = _unpackers.pop() if _unpackers else zstandard.ZstdDecompressor()
    try:
        _check_zstd_frames(data)
        with unpacker.stream_reader(data, read_across_frames=True) as stream:
            while part := stream.read(min(room + 1, _CHUNK)):
                room -= len(part)
                yield part
    except zstandard.ZstdError as error:
        raise _junk(ZSTD, error) from error
    _keep(_unpackers, unpacker)


def _keep(idle: "list[_Context]", context: "_Context") -> None:
    """Put a context back for the next call of any thread, unless it has grown large."""
    if context.memory_size() <= _KEPT_CONTEXT_BYTES:
        idle.append(context)


def _check_zstd_frames(data: memoryview) -> None:
    """Follow the block lengths to the very end of the last frame (RFC 8878 §3.1.1)."""
    import zstandard  # noqa: PLC0415 - loaded when first used

    position = 0
    while position < len(data) or not position:
        frame = data[position:]
        if frame[1:4] == _ZSTD_SKIPPABLE and frame[0] >> 4 == 5:
            position += 8 + int.from_bytes(frame[4:8], "little")
            continue
        checksum = 4 if zstandard.get_frame_parameters(frame).has_checksum else 0
        position += zstandard.frame_header_size(frame)
        last = False
        while not last:
            head = int.from_bytes(data[position : position + 3], "little")
            last = head & 1 == 1
            is_run = head >> 1 & 3 == 1
            position += 3 + (1 if is_run else head >> 3)
            if position > len(data):
                raise _junk(ZSTD, "it is cut short")
        position += checksum
    if position > len(data):
        raise _junk(ZSTD, "it is cut short")


_COMPRESS = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
_UNFOLD = {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unlz4, ZSTD: _unzstd}
