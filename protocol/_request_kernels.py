"""Frames, heads, the commonest Produce and Fetch: compiled, or plain Python as it stands.

No length is believed before it was compared with the end of what is there. What is not laid out
like this is no fault: `protocol.headers.parse_header`, `protocol.produce.parse` and
`protocol.fetch.parse` read every request, and say what is wrong.
The types of the compiled form stand in ``_request_kernels.pxd``; import `protocol.kernels`.
"""
# ruff: noqa: C901, PLR0911  # one return for each thing that is not as it mostly is

from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.framing import describe_bad_size

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.records._portable import (
        acquire,
        blank,
        inside,
        no_region,
        octets_of,
        put_octets,
        read_int16,
        read_int32,
        read_int64,
        release,
        sealed,
        text_of,
        write_int32,
        write_int64,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from protocol.topic_key import TopicKey

COMPILED: bool = cython.compiled


def next_frame(buffer: "Buffer", position: int, filled: int, limit: int) -> int:
    """Return where the frame at ``position`` ends; it is complete if that is not past ``filled``.

    A frame is never copied: its header starts at ``position + SIZE_PREFIX``. While fewer than four
    bytes are there the answer is the end of the prefix. Either way the answer minus ``position`` is
    how much room the buffer needs, so nothing is reserved before the size has been judged.

    Raises:
        ProtocolError: the size is negative, zero or above ``limit``.
    """
    if filled - position < 4:
        return position + 4
    region = no_region()
    acquire(buffer, region)
    size = 0
    if position >= 0 and filled <= region.len:
        size = read_int32(region.buf, position)
    release(region)
    if 0 < size <= limit:
        return position + 4 + size
    prefix = bytes(memoryview(buffer)[position : position + 4])
    raise ProtocolError(describe_bad_size(size, prefix, limit))


def read_head(buffer: "Buffer", start: int, end: int) -> tuple[int, int, int, int]:
    """Read the head of the request ``buffer[start:end]``.

    Returns:
        API key, version, correlation id, and where the body begins if the head is flexible and
        ends as nearly every one does, without tagged fields; else -1 there.

    Raises:
        ProtocolError: The frame is too short for a head.
    """
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    is_whole = start >= 0 and end - start >= 10 and end <= region.len
    key = version = correlation_id = 0
    body = -1
    if is_whole:
        key = read_int16(data, start)
        version = read_int16(data, start + 2)
        correlation_id = read_int32(data, start + 4)
        size = read_int16(data, start + 8)  # of the client id; -1: there is none
        body = start + 10 + (size if size > 0 else 0)  # noqa: FURB136  # max() is slow as a call
        body = body + 1 if size >= -1 and body < end and data[body] == 0 else -1
    release(region)
    if not is_whole:
        raise ProtocolError(f"reason=a frame of {end - start} bytes holds no header")
    return key, version, correlation_id, body


def find_single(
    buffer: "Buffer", position: int, end: int, version: int
) -> "tuple[int, TopicKey, int, int, int] | None":
    """Find the records in the body of a request of version 9 or later, from ``position``.

    Returns:
        Acks, topic, partition, start and end of the records; None if the request has another
        number of topics or partitions than one, a transactional id, tagged fields or a fault.
    """
    region = no_region()
    acquire(buffer, region)
    try:
        if position < 0 or end > region.len:
            return None
        return _find_single(region.buf, position, end, version)
    except UnicodeDecodeError:
        return None
    finally:
        release(region)


def _find_single(
    data: memoryview, position: int, end: int, version: int
) -> "tuple[int, TopicKey, int, int, int] | None":
    # No transactional id (1), acks (2), timeout (4), one topic (1), the size of its name.
    if end - position < 9 or data[position] != 0 or data[position + 7] != 2:
        return None
    name = position + 8
    size = 16
    if version < 13:
        size = data[name] - 1
        name += 1
        if size < 1 or size > 126:
            return None
    # One partition (1), its index (4), and at least one byte that begins a size.
    at = name + size
    if end - at < 6 or data[at] != 2:
        return None
    partition = read_int32(data, at + 1)
    at += 5
    length = 0
    shift = 0
    while True:
        if at == end or shift > 28:
            return None
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    length -= 1
    # No tagged fields: of the partition, the topic, the request.
    if length < 1 or length > end - at - 3:
        return None
    stop = at + length
    if data[stop] or data[stop + 1] or data[stop + 2]:
        return None
    acks = read_int16(data, position + 1)
    if version < 13:
        return acks, text_of(data, name, name + size), partition, at, stop
    return acks, octets_of(data, name, name + size), partition, at, stop


def encode_single(
    correlation_id: int,
    topic: "TopicKey",
    partition: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """Return the frame for one partition without error, of version 9 or later.

    A name has at most 126 bytes, as `find_single` finds them; 16 of a topic's id are no name.
    """
    name = topic if isinstance(topic, bytes) else topic.encode()
    length = len(name)
    is_name = not isinstance(topic, bytes)
    if length > 126:
        raise ValueError("a name of more than 126 bytes")
    size = length + (51 if is_name else 50)
    frame = blank(size)
    data = inside(frame)
    write_int32(data, 0, size - 4)
    write_int32(data, 4, correlation_id)
    data[8] = 0  # no tagged fields
    data[9] = 2  # one topic
    at = 10
    if is_name:
        data[at] = length + 1
        at += 1
    at = put_octets(data, at, name)
    data[at] = 2  # one partition
    write_int32(data, at + 1, partition)
    data[at + 5] = data[at + 6] = 0  # no error
    write_int64(data, at + 7, base_offset)
    write_int64(data, at + 15, log_append_time_ms)
    write_int64(data, at + 23, log_start_offset)
    data[at + 31] = 1  # no record errors
    data[at + 32] = 0  # no message
    data[at + 33] = data[at + 34] = 0  # no tagged fields, of the partition and of the topic
    write_int32(data, at + 35, 0)  # no throttling
    data[at + 39] = 0  # no tagged fields
    return sealed(frame)


def find_single_fetch(
    buffer: "Buffer", position: int, end: int, version: int
) -> "tuple[TopicKey, int, int, int, int, int, int, int, int, int] | None":
    """Find what is asked in the body of a request of version 12 or later, from ``position``.

    Returns:
        Topic, partition, leader epoch, offset, most bytes of the partition and of the answer,
        fewest bytes, isolation level, session id and epoch; None if the request has another number
        of topics or partitions than one, names a replica, the epoch fetched last, a rack, tagged
        fields or what leaves a session, wants fewer bytes than none, or has a fault.
    """
    region = no_region()
    acquire(buffer, region)
    try:
        if position < 0 or end > region.len:
            return None
        return _find_single_fetch(region.buf, position, end, version)
    except UnicodeDecodeError:
        return None
    finally:
        release(region)


def _find_single_fetch(
    data: memoryview, position: int, end: int, version: int
) -> "tuple[TopicKey, int, int, int, int, int, int, int, int, int] | None":
    # Replica id (4) below version 15; wait (4), bytes (4, 4), isolation (1), session (4, 4).
    head = position
    if version < 15:
        if end - head < 4 or read_int32(data, head) != -1:
            return None
        head += 4
    # One topic (1), the size of its name.
    if end - head < 23 or data[head + 12] > 1 or data[head + 21] != 2:
        return None
    name = head + 22
    size = 16
    if version < 13:
        size = data[name] - 1
        name += 1
        if size < 1 or size > 126:
            return None
    # One partition (1), its index (4), leader epoch (4), offset (8), last epoch (4), log start (8),
    # most bytes (4); no tagged fields of the partition and the topic, nothing that leaves the
    # session, no rack, no tagged fields of the request.
    at = name + size
    if end - at < 38 or data[at] != 2 or read_int32(data, at + 17) != -1:
        return None
    if data[at + 33] or data[at + 34] or data[at + 35] != 1 or data[at + 36] != 1 or data[at + 37]:
        return None
    if data[at + 29] > 127 or data[head + 8] > 127:  # the signs of the limits
        return None
    stop = name + size
    return (
        text_of(data, name, stop) if version < 13 else octets_of(data, name, stop),
        read_int32(data, at + 1),
        read_int32(data, at + 5),
        read_int64(data, at + 9),
        read_int32(data, at + 29),
        read_int32(data, head + 8),
        read_int32(data, head + 4),
        data[head + 12],
        read_int32(data, head + 13),
        read_int32(data, head + 17),
    )


def encode_single_fetch(  # noqa: PLR0913, PLR0917  # what differs between answers
    correlation_id: int,
    session_id: int,
    topic: "TopicKey",
    partition: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    has_list: bool,
    size: int,
) -> bytes:
    """Return the frame up to ``size`` bytes of records, of one partition without error.

    Of version 12 or later; three bytes of zero follow the records. ``has_list`` tells whether there
    is a list of aborted transactions, an empty one. A name is as `encode_single` takes it.
    """
    name = topic if isinstance(topic, bytes) else topic.encode()
    length = len(name)
    is_name = not isinstance(topic, bytes)
    if length > 126:
        raise ValueError("a name of more than 126 bytes")
    counted = 1  # the bytes of a varint
    rest = (size + 1) >> 7
    while rest:
        counted += 1
        rest >>= 7
    whole = length + (57 if is_name else 56) + counted
    frame = blank(whole)
    data = inside(frame)
    write_int32(data, 0, whole + size + 3 - 4)
    write_int32(data, 4, correlation_id)
    data[8] = 0  # no tagged fields
    write_int32(data, 9, 0)  # no throttling
    data[13] = data[14] = 0  # no error
    write_int32(data, 15, session_id)
    data[19] = 2  # one topic
    at = 20
    if is_name:
        data[at] = length + 1
        at += 1
    at = put_octets(data, at, name)
    data[at] = 2  # one partition
    write_int32(data, at + 1, partition)
    data[at + 5] = data[at + 6] = 0  # no error
    write_int64(data, at + 7, high_watermark)
    write_int64(data, at + 15, last_stable_offset)
    write_int64(data, at + 23, log_start_offset)
    data[at + 31] = 1 if has_list else 0
    write_int32(data, at + 32, -1)  # no preferred read replica
    at += 36
    rest = size + 1
    while rest > 0x7F:
        data[at] = rest & 0x7F | 0x80
        rest >>= 7
        at += 1
    data[at] = rest
    return sealed(frame)
