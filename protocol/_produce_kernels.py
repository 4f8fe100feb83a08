"""The layout of the commonest Produce request, read in one call: compiled, or plain as it stands.

No length is believed before it was compared with the end of what is there. What is not laid out
like this is no fault: `protocol.produce.parse` reads every request, and says what is wrong.
The types of the compiled form stand in ``_produce_kernels.pxd``; import `protocol.kernels`.
"""
# ruff: noqa: C901, PLR0911  # one return for each thing that is not as it mostly is

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.records._portable import (
        acquire,
        no_region,
        octets_of,
        read_int16,
        read_int32,
        release,
        text_of,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from protocol.topic_key import TopicKey

COMPILED: bool = cython.compiled


def find_single(
    buffer: "Buffer", position: int, end: int, version: int
) -> "tuple[int, TopicKey, int, int, int] | None":
    """Find the records in the body of a request of version 9 or later, from ``position``.

    Returns:
        Acks, topic, partition, start and end of the records; None if the request has another
        number of topics or partitions than one, a transactional id, tagged fields or a fault.

    Raises:
        UnicodeDecodeError: The name is not UTF-8.
    """
    region = no_region()
    acquire(buffer, region)
    try:
        if position < 0 or end > region.len:
            return None
        return _find_single(region.buf, position, end, version)
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
