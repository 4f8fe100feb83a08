"""Produce requests and responses by hand, because they are the hot path (kio: 18 us a response).

What nearly every request is, one topic with one partition in a flexible version, is read by
`protocol.kernels.find_single` and answered by its `encode_single`; `parse` and `encode` know all
of versions 3 to 13. kio is the oracle of both in the tests. Records are never copied.

Versions: 3 transactional id; 5 log start offset; 8 record errors (KIP-467); 9 flexible;
10 tagged current leader (never needed on one node); 13 topic ids instead of names (KIP-516).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, Encoding, behind
from protocol.topic_key import (
    TopicKey,
    put_topic_key,
    read_topic_key,
)

API_KEY: Final = 0
FIRST_FLEXIBLE: Final = 9

Topics = list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]
"""Topics with their partitions: index and records."""


@dataclass(slots=True)  # not frozen: made once for each request
class ProduceRequest:
    """A Produce request of any version; records are views of the frame, writable if it is."""

    acks: int
    timeout_ms: int
    transactional_id: str | None
    topics: Topics


class PartitionProduced(NamedTuple):
    """What became of one partition's records."""

    index: int  # type: ignore[assignment]  # nobody calls tuple.index on a result
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None


_ACKS_TIMEOUT = Struct(">hi")
_INDEX = Struct(">i")
_RESULT = Struct(">ihqq")
_FLEXIBLE_RESULT = Struct(">ihqqqBxx")  # no record errors, no message, no tagged fields
_LOG_START = Struct(">q")
_THROTTLE = Struct(">i")


def parse(version: int, buffer: memoryview, position: int, end: int) -> ProduceRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    transactional_id, position = encoding.nullable_string(buffer, position, end)
    start, position = position, behind(_ACKS_TIMEOUT.size, position, end)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(buffer, start)
    count, position = encoding.count(buffer, position, end)
    topics: Topics = []
    for _ in range(count):
        topic, position = read_topic_key(version, encoding, buffer, position, end)
        partitions, position = _parse_partitions(encoding, buffer, position, end)
        topics.append((topic, partitions))
    encoding.tags(buffer, position, end)
    return ProduceRequest(acks, timeout_ms, transactional_id, topics)


def _parse_partitions(
    encoding: Encoding, buffer: memoryview, position: int, end: int
) -> tuple[list[tuple[int, memoryview | None]], int]:
    """Read the partitions of a topic and its tagged fields."""
    partitions: list[tuple[int, memoryview | None]] = []
    flexible = encoding is COMPACT
    count, position = encoding.count(buffer, position, end)
    for _ in range(count):
        start = behind(_INDEX.size, position, end)
        index: int = _INDEX.unpack_from(buffer, position)[0]
        size, start = encoding.size(buffer, start, end)
        position = start if size < 0 else start + size
        partitions.append((index, None if size < 0 else buffer[start:position]))
        if flexible:
            if position < end and buffer[position] == 0:
                position += 1
            else:
                position = encoding.tags(buffer, position, end)[1]
    return partitions, encoding.tags(buffer, position, end)[1]


def encode(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionProduced]]],
    throttle_ms: int = 0,
) -> bytes:
    """Return the response frame with its size prefix."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    pieces = [encoding.put_count(len(topics))]
    for topic, partitions in topics:
        pieces.append(put_topic_key(encoding, topic))
        pieces.append(encoding.put_count(len(partitions)))
        for produced in partitions:
            _put_partition(version, encoding, produced, pieces)
        pieces.append(encoding.no_tags)
    pieces.append(_THROTTLE.pack(throttle_ms))
    pieces.append(encoding.no_tags)
    body = b"".join(pieces)
    return response_head(API_KEY, version, correlation_id, len(body)) + body


def _put_partition(
    version: int, encoding: Encoding, produced: PartitionProduced, pieces: list[bytes]
) -> None:
    """Append what a version says about one partition."""
    if encoding is COMPACT and not produced.record_errors and produced.error_message is None:
        pieces.append(_FLEXIBLE_RESULT.pack(*produced[:5], 1))
        return
    pieces.append(_RESULT.pack(*produced[:4]))
    if version >= 5:
        pieces.append(_LOG_START.pack(produced.log_start_offset))
    if version >= 8:
        pieces.append(encoding.put_count(len(produced.record_errors)))
        for index, message in produced.record_errors:
            pieces += _INDEX.pack(index), encoding.put_string(message), encoding.no_tags
        pieces.append(encoding.put_string(produced.error_message))
    pieces.append(encoding.no_tags)
