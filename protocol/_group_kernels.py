"""The commonest OffsetCommit and Heartbeat: compiled by Cython, or plain Python as it stands.

No length is believed before it was compared with the end of what is there. What is not laid out
like this is no fault: `protocol.offset_commit.parse` and `protocol.heartbeat.parse` read every
request, and say what is wrong.
The types of the compiled form stand in ``_group_kernels.pxd``; import `protocol.group_kernels`.
"""
# ruff: noqa: PLR0911  # one return for each thing that is not as it mostly is

from typing import TYPE_CHECKING

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
        read_int32,
        read_int64,
        release,
        sealed,
        text_of,
        write_int16,
        write_int32,
        write_int64,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from protocol.topic_key import TopicKey

COMPILED: bool = cython.compiled


def find_commit(
    buffer: "Buffer", position: int, end: int, version: int
) -> "tuple[str, int, str, str | None, TopicKey, int, int, int, str | None] | None":
    """Find what the body of an OffsetCommit of version 8 or later says, from ``position``.

    Returns:
        Group, generation, member, instance, topic, partition, offset, leader epoch and metadata;
        None if it has another number of partitions than one, tagged fields, a text of more than
        126 bytes or a fault.
    """
    region = no_region()
    acquire(buffer, region)
    try:
        if position < 0 or end > region.len:
            return None
        return _find_commit(region.buf, position, end, version)
    except UnicodeDecodeError:
        return None
    finally:
        release(region)


def _find_commit(
    data: memoryview, position: int, end: int, version: int
) -> "tuple[str, int, str, str | None, TopicKey, int, int, int, str | None] | None":
    group_end = _text_end(data, position, end - 5)
    if group_end < 0 or not data[position]:
        return None
    member = group_end + 4
    member_end = _text_end(data, member, end - 1)
    if member_end < 0 or not data[member]:
        return None
    instance_end = _text_end(data, member_end, end - 2)
    if instance_end < 0 or data[instance_end] != 2:
        return None
    topic = instance_end + 1
    topic_end = topic + 16
    if version < 10:
        topic_end = _text_end(data, topic, end - 18) if data[topic] else -1
        topic += 1
    if topic_end < 0 or topic_end > end - 18 or data[topic_end] != 2:
        return None
    metadata = topic_end + 17
    metadata_end = _text_end(data, metadata, end - 3)
    if metadata_end < 0:
        return None
    # No tagged fields: of the partition, the topic, the request.
    if data[metadata_end] or data[metadata_end + 1] or data[metadata_end + 2]:
        return None
    return (
        text_of(data, position + 1, group_end),
        read_int32(data, group_end),
        text_of(data, member + 1, member_end),
        text_of(data, member_end + 1, instance_end) if data[member_end] else None,
        octets_of(data, topic, topic_end) if version >= 10 else text_of(data, topic, topic_end),
        read_int32(data, topic_end + 1),
        read_int64(data, topic_end + 5),
        read_int32(data, topic_end + 13),
        text_of(data, metadata + 1, metadata_end) if data[metadata] else None,
    )


def find_heartbeat(
    buffer: "Buffer", position: int, end: int
) -> "tuple[str, int, str, str | None] | None":
    """Find what the body of a Heartbeat of version 4 says, from ``position``.

    Returns:
        Group, generation, member and instance; None if it has tagged fields, a text of more than
        126 bytes or a fault.
    """
    region = no_region()
    acquire(buffer, region)
    try:
        if position < 0 or end > region.len:
            return None
        return _find_heartbeat(region.buf, position, end)
    except UnicodeDecodeError:
        return None
    finally:
        release(region)


def _find_heartbeat(
    data: memoryview, position: int, end: int
) -> "tuple[str, int, str, str | None] | None":
    group_end = _text_end(data, position, end - 5)
    if group_end < 0 or not data[position]:
        return None
    member = group_end + 4
    member_end = _text_end(data, member, end - 1)
    if member_end < 0 or not data[member]:
        return None
    instance_end = _text_end(data, member_end, end - 1)
    if instance_end < 0 or data[instance_end]:
        return None
    return (
        text_of(data, position + 1, group_end),
        read_int32(data, group_end),
        text_of(data, member + 1, member_end),
        text_of(data, member_end + 1, instance_end) if data[member_end] else None,
    )


def _text_end(data: memoryview, position: int, end: int) -> int:
    """Return where the text ends whose size stands at `position`, -1 if not up to `end`.

    A text that is null ends behind its size, as an empty one.
    """
    if position >= end:
        return -1
    size = data[position]
    if size > 127:
        return -1
    stop = position + (size or 1)
    return stop if stop <= end else -1


def encode_commit(correlation_id: int, topic: "TopicKey", partition: int, error_code: int) -> bytes:
    """Return the frame for one partition, of version 8 or later.

    A name has at most 126 bytes, as `find_commit` finds them; 16 of a topic's id are no name.
    """
    name = topic if isinstance(topic, bytes) else topic.encode()
    length = len(name)
    is_name = not isinstance(topic, bytes)
    if length > 126:
        raise ValueError("a name of more than 126 bytes")
    size = length + (25 if is_name else 24)
    frame = blank(size)
    data = inside(frame)
    write_int32(data, 0, size - 4)
    write_int32(data, 4, correlation_id)
    data[8] = 0  # no tagged fields
    write_int32(data, 9, 0)  # no throttling
    data[13] = 2  # one topic
    at = 14
    if is_name:
        data[at] = length + 1
        at += 1
    at = put_octets(data, at, name)
    data[at] = 2  # one partition
    write_int32(data, at + 1, partition)
    write_int16(data, at + 5, error_code)
    data[at + 7] = data[at + 8] = data[at + 9] = 0  # no tagged fields, of whatever
    return sealed(frame)


def encode_heartbeat(correlation_id: int, error_code: int) -> bytes:
    """Return the frame of the answer to a Heartbeat of version 4."""
    frame = blank(16)
    data = inside(frame)
    write_int32(data, 0, 12)
    write_int32(data, 4, correlation_id)
    data[8] = 0  # no tagged fields
    write_int32(data, 9, 0)  # no throttling
    write_int16(data, 13, error_code)
    data[15] = 0  # no tagged fields
    return sealed(frame)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset's record, in version 1.

    Raises:
        ValueError: A name is longer than its size can say.
    """
    group = group_id.encode()
    name = topic.encode()
    if len(group) > 0x7FFF or len(name) > 0x7FFF:
        raise ValueError("a name of more than 32,767 bytes")
    key = blank(10 + len(group) + len(name))
    output = inside(key)
    write_int16(output, 0, 1)
    write_int16(output, 2, len(group))
    at = put_octets(output, 4, group)
    write_int16(output, at, len(name))
    at = put_octets(output, at + 2, name)
    write_int32(output, at, partition)
    return sealed(key)


def offset_value(offset: int, leader_epoch: int, metadata: str, timestamp: int) -> bytes:
    """Return the value of a committed offset's record, in version 3.

    Raises:
        ValueError: The metadata is longer than its size can say.
    """
    text = metadata.encode()
    if len(text) > 0x7FFF:
        raise ValueError("metadata of more than 32,767 bytes")
    value = blank(24 + len(text))
    output = inside(value)
    write_int16(output, 0, 3)
    write_int64(output, 2, offset)
    write_int32(output, 10, leader_epoch)
    write_int16(output, 14, len(text))
    at = put_octets(output, 16, text)
    write_int64(output, at, timestamp)
    return sealed(value)
