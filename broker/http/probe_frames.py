"""The probe's own bytes: one Produce v9 and one Fetch v12 request for one partition.

The frames are written by hand, so that the probe does not depend on the tables that it tests.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

_HEADER = Struct(">hhih")
_PRODUCE_HEAD = Struct(">xhiB")  # no transactional id, acks, timeout, one topic
_FETCH_HEAD = Struct(">iiiibiiB")  # replica, wait, min and max bytes, isolation, session, one topic
_FETCH_PARTITION = Struct(">Biiqiqi")
_PRODUCED = Struct(">Bihq")  # one partition, index, error, base offset
_FETCHED = Struct(">ihi")  # throttle, error, session
_FETCHED_PARTITION = Struct(">Bihqqq")  # one partition, index, error, watermark, LSO, log start

_CLIENT_ID = b"siltstone-probe"
_ALL = -1
_ONE = 2  # a compact array's length is written plus one
_NO_TAGS = b"\0"
_RESPONSE_HEAD = 5  # correlation id and an empty tag section
_MAX_BYTES = 64 * 1024


class Answer(NamedTuple):
    """The broker's answer: Kafka's error code, and the base offset or the fetched bytes."""

    error_code: int
    base_offset: int = -1
    records: bytes = b""


def produce_request(topic: str, batch: bytes, timeout_ms: int) -> bytes:
    """Return a frame that appends ``batch`` to partition 0 with acks=all."""
    body = (
        _PRODUCE_HEAD.pack(_ALL, timeout_ms, _ONE)
        + _compact(topic.encode())
        + bytes((_ONE, 0, 0, 0, 0))
        + _compact(batch)
        + _NO_TAGS * 3
    )
    return _frame(0, 9, body)


def fetch_request(topic: str, offset: int) -> bytes:
    """Return a frame that reads partition 0 from ``offset`` without waiting."""
    body = (
        _FETCH_HEAD.pack(-1, 0, 0, _MAX_BYTES, 0, 0, -1, _ONE)
        + _compact(topic.encode())
        + _FETCH_PARTITION.pack(_ONE, 0, -1, offset, -1, -1, _MAX_BYTES)
        + _NO_TAGS * 2
        + b"\1"  # nothing forgotten
        + _compact(b"")  # no rack
        + _NO_TAGS
    )
    return _frame(1, 12, body)


def read_produced(frame: bytes, topic: str) -> Answer:
    """Return what a Produce v9 response, without its size prefix, says.

    Raises:
        struct.error: the response is cut short.
    """
    position = _RESPONSE_HEAD + 1 + len(_compact(topic.encode()))
    _, _, error, base_offset = _PRODUCED.unpack_from(frame, position)
    return Answer(error, base_offset)


def read_fetched(frame: bytes, topic: str) -> Answer:
    """Return what a Fetch v12 response, without its size prefix, says.

    Raises:
        struct.error: the response is cut short.
    """
    _, error, _ = _FETCHED.unpack_from(frame, _RESPONSE_HEAD)
    position = _RESPONSE_HEAD + _FETCHED.size + 1
    if error or len(frame) <= position + 1:
        return Answer(error)
    position += len(_compact(topic.encode()))
    _, _, error, *_ = _FETCHED_PARTITION.unpack_from(frame, position)
    position += _FETCHED_PARTITION.size
    aborted, position = _read_length(frame, position)
    if aborted > 0:
        return Answer(error)
    size, position = _read_length(frame, position + 4)  # 4: preferred read replica
    return Answer(error, records=frame[position : position + max(size, 0)])


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    head = _HEADER.pack(api_key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID + _NO_TAGS
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def _compact(data: bytes) -> bytes:
    """Return bytes after their length plus one, as an unsigned varint."""
    length = len(data) + 1
    prefix = bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + data


def _read_length(frame: bytes, position: int) -> tuple[int, int]:
    """Return a compact length (-1 is null) and the position behind it."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, position
        shift += 7
