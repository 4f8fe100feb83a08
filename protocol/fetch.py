"""Fetch requests and responses by hand, because they are the hot path; kio is the tests' oracle.

What nearly every request is, one partition in a flexible version, is read by
`protocol.kernels.find_single_fetch` and answered by its `encode_single_fetch`; `parse` and `encode`
know all of versions 4 to 18. Fetched records stay ranges of files (`FileSlice`), sent from there.
The file is long because fifteen versions, asked and answered, are told in one place.

Versions: 4 isolation level; 5 log start offset; 7 sessions (KIP-227); 9 leader epochs;
11 rack id; 12 flexible, last fetched epoch, diverging epoch; 13 topic ids instead of names
(KIP-516); 15 replica state as a tag instead of the replica id; 16 node endpoints (KIP-951);
17 replica directory id and 18 high watermark as tags of a partition, for followers: skipped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, cast

from protocol.headers import response_head
from protocol.kernels import encode_single_fetch
from protocol.parts import FileSlice, Parts, size_of
from protocol.primitives import CLASSIC, COMPACT, Encoding, behind, put_varint
from protocol.topic_key import TopicKey, put_topic_key, read_topic_key

API_KEY: Final = 1
FIRST_WITH_SESSION: Final = 7
FIRST_WITH_RACK_ID: Final = 11
FIRST_FLEXIBLE: Final = 12
FIRST_WITH_REPLICA_STATE: Final = 15
FIRST_WITH_NODE_ENDPOINTS: Final = 16


class FetchPartition(NamedTuple):
    """What is asked of one partition; -1 where the version does not say or the client cannot."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


@dataclass(slots=True)  # not frozen: made once for each request
class FetchRequest:
    """A Fetch request of any version; without a session ``session_epoch`` is -1."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten: list[tuple[TopicKey, list[int]]]
    rack_id: str = ""
    cluster_id: str | None = None


class PartitionFetched(NamedTuple):
    """What one partition answers; ``aborted`` are (producer id, first offset)."""

    index: int  # type: ignore[assignment]  # nobody calls tuple.index on an answer
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] | None
    records: FileSlice | bytes
    diverging: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


class _Layout(NamedTuple):
    """How the fixed fields of one version lie: head of the request, then of each partition."""

    head: Struct
    partition: Struct
    to_partition: Callable[[tuple[int, ...]], FetchPartition]


def _since_v4(values: tuple[int, ...]) -> FetchPartition:
    partition, fetch_offset, max_bytes = values
    return FetchPartition(partition, -1, fetch_offset, -1, -1, max_bytes)


def _since_v5(values: tuple[int, ...]) -> FetchPartition:
    partition, fetch_offset, log_start_offset, max_bytes = values
    return FetchPartition(partition, -1, fetch_offset, -1, log_start_offset, max_bytes)


def _since_v9(values: tuple[int, ...]) -> FetchPartition:
    partition, leader_epoch, fetch_offset, log_start_offset, max_bytes = values
    return FetchPartition(partition, leader_epoch, fetch_offset, -1, log_start_offset, max_bytes)


_HEAD_4 = Struct(">iiiib")  # replica id, max wait, min bytes, max bytes, isolation level
_HEAD_7 = Struct(">iiiibii")  # and session id, session epoch
_HEAD_15 = Struct(">iiibii")  # without the replica id
_V4 = _Layout(_HEAD_4, Struct(">iqi"), _since_v4)
_V5 = _Layout(_HEAD_4, Struct(">iqqi"), _since_v5)
_V7 = _Layout(_HEAD_7, Struct(">iqqi"), _since_v5)
_V9 = _Layout(_HEAD_7, Struct(">iiqqi"), _since_v9)
_V12 = _Layout(_HEAD_7, Struct(">iiqiqi"), FetchPartition._make)
_V15 = _Layout(_HEAD_15, Struct(">iiqiqi"), FetchPartition._make)
_LAYOUTS: Final = (
    [_V4] * 5 + [_V5] * 2 + [_V7] * 2 + [_V9] * 3 + [_V12] * 3 + [_V15] * 4
)  # by version, 0 to 18

_REPLICA_ID = Struct(">i")
_INDEX = Struct(">i")
_CLUSTER_ID_TAG, _REPLICA_STATE_TAG = 0, 1
_NO_RACK_NO_TAGS = b"\x01\0"


def parse(version: int, buffer: memoryview, position: int, end: int) -> FetchRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    head = _LAYOUTS[version].head
    start, position = position, behind(head.size, position, end)
    fixed = head.unpack_from(buffer, start)
    if version >= FIRST_WITH_REPLICA_STATE:
        fixed = (-1, *fixed)
    elif version < FIRST_WITH_SESSION:
        fixed = (*fixed, 0, -1)
    replica, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = fixed
    topics, position = _parse_topics(version, buffer, position, end)
    forgotten: list[tuple[TopicKey, list[int]]] = []
    if version >= FIRST_WITH_SESSION:
        forgotten, position = _parse_forgotten(version, buffer, position, end)
    request = FetchRequest(
        replica, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch,
        topics, forgotten,
    )  # fmt: skip
    if version >= FIRST_WITH_RACK_ID:
        _parse_rest(version, buffer, position, end, request)
    return request


def _parse_topics(
    version: int, buffer: memoryview, position: int, end: int
) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], int]:
    """Read what is asked of each partition."""
    flexible = version >= FIRST_FLEXIBLE
    encoding = COMPACT if flexible else CLASSIC
    _, fixed, to_partition = _LAYOUTS[version]
    size, unpack = fixed.size, fixed.unpack_from
    topics = []
    count, position = encoding.count(buffer, position, end)
    for _ in range(count):
        topic, position = read_topic_key(version, encoding, buffer, position, end)
        partitions = []
        asked, position = encoding.count(buffer, position, end)
        for _ in range(asked):
            start, position = position, position + size
            if position > end:
                behind(size, start, end)
            partitions.append(to_partition(unpack(buffer, start)))
            if flexible:
                if position < end and buffer[position] == 0:
                    position += 1
                else:
                    position = encoding.tags(buffer, position, end)[1]
        topics.append((topic, partitions))
        position = encoding.tags(buffer, position, end)[1]
    return topics, position


def _parse_forgotten(
    version: int, buffer: memoryview, position: int, end: int
) -> tuple[list[tuple[TopicKey, list[int]]], int]:
    """Read the partitions that leave the session."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    forgotten = []
    count, position = encoding.count(buffer, position, end)
    for _ in range(count):
        topic, position = read_topic_key(version, encoding, buffer, position, end)
        indexes, position = encoding.count(buffer, position, end)
        start, position = position, behind(_INDEX.size * indexes, position, end)
        partitions = [index for (index,) in _INDEX.iter_unpack(buffer[start:position])]
        forgotten.append((topic, partitions))
        position = encoding.tags(buffer, position, end)[1]
    return forgotten, position


def _parse_rest(
    version: int, buffer: memoryview, position: int, end: int, request: FetchRequest
) -> None:
    """Read the rack id and what the tagged fields say; unknown ones say nothing."""
    if version < FIRST_FLEXIBLE:
        request.rack_id, _ = CLASSIC.string(buffer, position, end)
        return
    if position + 2 == end and buffer[position : position + 2] == _NO_RACK_NO_TAGS:
        return
    request.rack_id, position = COMPACT.string(buffer, position, end)
    spans, _ = COMPACT.tags(buffer, position, end)
    if _CLUSTER_ID_TAG in spans:
        request.cluster_id, _ = COMPACT.nullable_string(buffer, *spans[_CLUSTER_ID_TAG])
    if _REPLICA_STATE_TAG in spans and version >= FIRST_WITH_REPLICA_STATE:
        start, stop = spans[_REPLICA_STATE_TAG]
        behind(_REPLICA_ID.size, start, stop)
        request.replica_id = _REPLICA_ID.unpack_from(buffer, start)[0]


_THROTTLE = Struct(">i")
_ERROR_SESSION = Struct(">hi")
_PARTITION = Struct(">ihqq")
_LOG_START = Struct(">q")
_FLEXIBLE_PARTITION = Struct(">ihqqqBi")
_EPOCH_TAG = Struct(">BBiqx")  # tag, size, epoch, end offset, no tagged fields inside
_LEADER_TAG = Struct(">BBiix")  # tag, size, leader id, leader epoch, no tagged fields inside
_ABORTED = Struct(">qq")
_PREFERRED_READ_REPLICA = Struct(">i").pack(-1)
_LONGEST_NAME: Final = 126
ANSWER_END: Final = b"\0\0\0"  # no tagged fields: of the partition, the topic, the message


def encode(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionFetched]]],
    throttle_ms: int = 0,
    node: tuple[int, str, int] | None = None,
) -> Parts:
    """Return the response frame with its size prefix; ``node`` is (id, host, port) of a leader.

    A `FileSlice` among the records is a part of its own, everything else is joined.
    """
    is_plain = version >= FIRST_FLEXIBLE and not (error_code or throttle_ms or node)
    if is_plain and len(topics) == 1 and len(topics[0][1]) == 1:
        topic, (fetched,) = topics[0]
        parts = _encode_single(correlation_id, session_id, topic, fetched)
        if parts is not None:
            return parts
    return _encode_any(version, correlation_id, error_code, session_id, topics, throttle_ms, node)


def _encode_single(
    correlation_id: int, session_id: int, topic: TopicKey, fetched: PartitionFetched
) -> Parts | None:
    """Write a flexible answer of one partition with no error, aborted transactions or tags."""
    index, error, high, stable, start, aborted, records, diverging, leader = fetched
    if error or aborted or diverging is not None or leader is not None:
        return None
    if isinstance(topic, str) and not (len(topic) <= _LONGEST_NAME and topic.isascii()):
        return None
    has_list = aborted is not None
    head = encode_single_fetch(
        correlation_id, session_id, topic, index, high, stable, start, has_list, len(records)
    )
    if isinstance(records, bytes):
        return [b"".join((head, records, ANSWER_END))]
    return [head, records, ANSWER_END]


def _encode_any(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionFetched]]],
    throttle_ms: int,
    node: tuple[int, str, int] | None,
) -> Parts:
    """Write any response of versions 4 to 18."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    parts: Parts = []
    pieces = [_THROTTLE.pack(throttle_ms)]
    if version >= FIRST_WITH_SESSION:
        pieces.append(_ERROR_SESSION.pack(error_code, session_id))
    pieces.append(encoding.put_count(len(topics)))
    for topic, partitions in topics:
        pieces += put_topic_key(encoding, topic), encoding.put_count(len(partitions))
        for fetched in partitions:
            _put_partition(version, encoding, fetched, pieces)
            if isinstance(fetched.records, bytes):
                pieces.append(fetched.records)
            else:
                parts += b"".join(pieces), fetched.records
                pieces.clear()
            if version >= FIRST_FLEXIBLE:
                pieces.append(_partition_tags(fetched))
        pieces.append(encoding.no_tags)
    if node is not None and version >= FIRST_WITH_NODE_ENDPOINTS:
        pieces.append(_node_tag(node))
    else:
        pieces.append(encoding.no_tags)
    parts.append(b"".join(pieces))
    head = response_head(API_KEY, version, correlation_id, size_of(parts))
    parts[0] = head + cast("bytes", parts[0])  # a slice is never the first part
    return parts


def _put_partition(
    version: int, encoding: Encoding, fetched: PartitionFetched, pieces: list[bytes]
) -> None:
    """Append everything of one partition up to the size of its records."""
    if version >= FIRST_FLEXIBLE and not fetched.aborted:
        aborted_count = 0 if fetched.aborted is None else 1
        pieces.append(_FLEXIBLE_PARTITION.pack(*fetched[:5], aborted_count, -1))
        pieces.append(put_varint(len(fetched.records) + 1))
        return
    pieces.append(_PARTITION.pack(*fetched[:4]))
    if version >= 5:
        pieces.append(_LOG_START.pack(fetched.log_start_offset))
    if fetched.aborted is None:
        pieces.append(encoding.put_count(-1))
    else:
        pieces.append(encoding.put_count(len(fetched.aborted)))
        for producer_id, first_offset in fetched.aborted:
            pieces += _ABORTED.pack(producer_id, first_offset), encoding.no_tags
    if version >= FIRST_WITH_RACK_ID:
        pieces.append(_PREFERRED_READ_REPLICA)
    pieces.append(encoding.put_size(len(fetched.records)))


def _partition_tags(fetched: PartitionFetched) -> bytes:
    """Return the tagged fields of one partition: diverging epoch (0) and current leader (1)."""
    if fetched.diverging is None and fetched.current_leader is None:
        return b"\0"
    tags = []
    if fetched.diverging is not None:
        tags.append(_EPOCH_TAG.pack(0, _EPOCH_TAG.size - 2, *fetched.diverging))
    if fetched.current_leader is not None:
        tags.append(_LEADER_TAG.pack(1, _LEADER_TAG.size - 2, *fetched.current_leader))
    return put_varint(len(tags)) + b"".join(tags)


def _node_tag(node: tuple[int, str, int]) -> bytes:
    """Return the tagged fields of the response with one node endpoint (0), without a rack."""
    node_id, host, port = node
    endpoint = b"".join(
        (_INDEX.pack(node_id), COMPACT.put_string(host), _INDEX.pack(port), b"\0", b"\0")
    )
    value = COMPACT.put_count(1) + endpoint
    return b"\x01\0" + put_varint(len(value)) + value
