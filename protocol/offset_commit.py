"""OffsetCommit requests and responses by hand, because consumers that commit often do little else.

Versions 2 to 10; 3 throttle time; 5 no retention time; 6 leader epoch (KIP-320); 7 instance id
(KIP-345); 8 flexible; 9 member epochs (KIP-848); 10 topic ids instead of names. kio is the oracle
in tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, Encoding, behind
from protocol.topic_key import ID_SIZE, TopicKey, put_topic_key

API_KEY: Final = 8
FIRST_WITH_TOPIC_ID: Final = 10
NO_RETENTION: Final = -1
FIRST_FLEXIBLE: Final = 8
_FIRST_WITH_INSTANCE: Final = 7
_FIRST_WITH_EPOCH: Final = 6
_LAST_WITH_RETENTION: Final = 4
_FIRST_WITH_THROTTLE: Final = 3

_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET = Struct(">iq")
_OFFSET_EPOCH = Struct(">iqi")
_RESULT = Struct(">ih")
_FLEXIBLE_RESULT = Struct(">ihx")


class PartitionOffset(NamedTuple):
    """What is to be committed for one partition."""

    index: int  # type: ignore[assignment]  # nobody calls tuple.index on an offset
    offset: int
    leader_epoch: int
    metadata: str | None


@dataclass(slots=True)  # not frozen: made once for each request
class OffsetCommitRequest:
    """An OffsetCommit request of any version; ``retention_ms`` is -1 for the broker's own."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: list[tuple[TopicKey, list[PartitionOffset]]]


def parse(version: int, buffer: memoryview, position: int, end: int) -> OffsetCommitRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    What nearly all requests are `protocol.group_kernels.find_commit` reads in less time.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    group_id, position = encoding.string(buffer, position, end)
    start, position = position, behind(_INT32.size, position, end)
    generation: int = _INT32.unpack_from(buffer, start)[0]
    member_id, position = encoding.string(buffer, position, end)
    instance_id = None
    if version >= _FIRST_WITH_INSTANCE:
        instance_id, position = encoding.nullable_string(buffer, position, end)
    retention_ms = NO_RETENTION
    if version <= _LAST_WITH_RETENTION:
        start, position = position, behind(_INT64.size, position, end)
        retention_ms = _INT64.unpack_from(buffer, start)[0]
    count, position = encoding.count(buffer, position, end)
    topics: list[tuple[TopicKey, list[PartitionOffset]]] = []
    topic: TopicKey
    for _ in range(count):
        if version >= FIRST_WITH_TOPIC_ID:
            start, position = position, behind(ID_SIZE, position, end)
            topic = bytes(buffer[start:position])
        else:
            topic, position = encoding.string(buffer, position, end)
        partitions, position = _parse_partitions(version, encoding, buffer, position, end)
        topics.append((topic, partitions))
    encoding.tags(buffer, position, end)
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics)


def _parse_partitions(
    version: int, encoding: Encoding, buffer: memoryview, position: int, end: int
) -> tuple[list[PartitionOffset], int]:
    """Read the partitions of a topic and its tagged fields."""
    layout = _OFFSET_EPOCH if version >= _FIRST_WITH_EPOCH else _OFFSET
    partitions = []
    count, position = encoding.count(buffer, position, end)
    for _ in range(count):
        start, position = position, behind(layout.size, position, end)
        index, offset, *epoch = layout.unpack_from(buffer, start)
        metadata, position = encoding.nullable_string(buffer, position, end)
        partitions.append(PartitionOffset(index, offset, epoch[0] if epoch else -1, metadata))
        _, position = encoding.tags(buffer, position, end)
    return partitions, encoding.tags(buffer, position, end)[1]


def encode(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[tuple[int, int]]]],
) -> bytes:
    """Return the response frame with its size prefix; a partition is its index and error code."""
    flexible = version >= FIRST_FLEXIBLE
    encoding = COMPACT if flexible else CLASSIC
    layout = _FLEXIBLE_RESULT if flexible else _RESULT
    pieces = [_INT32.pack(0)] if version >= _FIRST_WITH_THROTTLE else []
    pieces.append(encoding.put_count(len(topics)))
    for topic, partitions in topics:
        pieces.append(put_topic_key(encoding, topic))
        pieces.append(encoding.put_count(len(partitions)))
        pieces += [layout.pack(index, error_code) for index, error_code in partitions]
        pieces.append(encoding.no_tags)
    pieces.append(encoding.no_tags)
    body = b"".join(pieces)
    return response_head(API_KEY, version, correlation_id, len(body)) + body
