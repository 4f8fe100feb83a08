"""Records of committed offsets, one by one: compiled by Cython, or plain Python as it stands.

The types of the compiled form stand in ``_group_kernels.pxd``; import `protocol.group_kernels`.
"""

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
        put_octets,
        read_int16,
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

COMPILED: bool = cython.compiled


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


def offset_row(index: int, value: "Buffer | None") -> "tuple[int, int, int, str, int] | None":
    """Return what OffsetFetch answers for a partition whose committed offset has this value.

    Returns:
        Partition, offset, leader epoch, metadata and no error; None if the value is not laid out as
        `offset_value` does it: `protocol.coordinator.group_records.read_offset` reads all.
    """
    if value is None:
        return (index, -1, -1, "", 0)
    region = no_region()
    acquire(value, region)
    try:
        data = region.buf
        end = region.len - 8
        if end < 16 or read_int16(data, 0) != 3 or read_int16(data, 14) != end - 16:
            return None
        metadata = text_of(data, 16, end) if end > 16 else ""
        return (index, read_int64(data, 2), read_int32(data, 10), metadata, 0)
    except UnicodeDecodeError:
        return None
    finally:
        release(region)
