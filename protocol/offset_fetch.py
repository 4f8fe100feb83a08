"""OffsetFetch requests and responses by hand: one group, or several, by names or by ids.

Versions 1 to 10; 2 all topics, error of the group; 3 throttle time; 5 leader epoch (KIP-320); 6
flexible; 7 require stable (KIP-447); 8 several groups (KIP-709); 9 member epochs (KIP-848); 10
topic ids instead of names. kio is the oracle in tests.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, Encoding, behind
from protocol.topic_key import ID_SIZE, TopicKey, put_topic_key

API_KEY: Final = 9
FIRST_WITH_TOPIC_ID: Final = 10
FIRST_WITH_GROUPS: Final = 8
FIRST_WITH_GROUP_ERROR: Final = 2
_FIRST_WITH_EPOCHS: Final = 9
_FIRST_WITH_STABLE: Final = 7
_FIRST_FLEXIBLE: Final = 6
_FIRST_WITH_LEADER_EPOCH: Final = 5
_FIRST_WITH_THROTTLE: Final = 3
_NO_EPOCH: Final = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OFFSET = Struct(">iq")
_OFFSET_EPOCH = Struct(">iqi")


class FetchGroup(NamedTuple):
    """A group whose offsets are wanted; without topics all that it has committed."""

    group_id: str
    topics: list[tuple[TopicKey, list[int]]] | None
    member_id: str | None = None
    member_epoch: int = _NO_EPOCH


class OffsetFetchRequest(NamedTuple):
    """An OffsetFetch request of any version."""

    groups: list[FetchGroup]
    require_stable: bool


class PartitionCommitted(NamedTuple):
    """What a group has committed for one partition."""

    index: int  # type: ignore[assignment]  # nobody calls tuple.index on an offset
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: int = 0


class GroupCommitted(NamedTuple):
    """The answer about one group."""

    group_id: str
    topics: Sequence[tuple[TopicKey, Sequence[PartitionCommitted]]]
    error_code: int = 0


def parse(version: int, buffer: memoryview, position: int, end: int) -> OffsetFetchRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    groups = []
    if version >= FIRST_WITH_GROUPS:
        count, position = encoding.count(buffer, position, end)
        for _ in range(count):
            group, position = _parse_group(version, encoding, buffer, position, end)
            groups.append(group)
    else:
        group_id, position = encoding.string(buffer, position, end)
        topics, position = _parse_topics(version, encoding, buffer, position, end)
        groups.append(FetchGroup(group_id, topics))
    require_stable = False
    if version >= _FIRST_WITH_STABLE:
        start, position = position, behind(1, position, end)
        require_stable = bool(buffer[start])
    encoding.tags(buffer, position, end)
    return OffsetFetchRequest(groups, require_stable)


def _parse_group(
    version: int, encoding: Encoding, buffer: memoryview, position: int, end: int
) -> tuple[FetchGroup, int]:
    group_id, position = encoding.string(buffer, position, end)
    member_id, member_epoch = None, _NO_EPOCH
    if version >= _FIRST_WITH_EPOCHS:
        member_id, position = encoding.nullable_string(buffer, position, end)
        start, position = position, behind(_INT32.size, position, end)
        member_epoch = _INT32.unpack_from(buffer, start)[0]
    topics, position = _parse_topics(version, encoding, buffer, position, end)
    _, position = encoding.tags(buffer, position, end)
    return FetchGroup(group_id, topics, member_id, member_epoch), position


def _parse_topics(
    version: int, encoding: Encoding, buffer: memoryview, position: int, end: int
) -> tuple[list[tuple[TopicKey, list[int]]] | None, int]:
    lowest = -1 if version >= FIRST_WITH_GROUP_ERROR else 0
    count, position = encoding.count(buffer, position, end, lowest)
    if count < 0:
        return None, position
    topics: list[tuple[TopicKey, list[int]]] = []
    topic: TopicKey
    for _ in range(count):
        if version >= FIRST_WITH_TOPIC_ID:
            start, position = position, behind(ID_SIZE, position, end)
            topic = bytes(buffer[start:position])
        else:
            topic, position = encoding.string(buffer, position, end)
        size, position = encoding.count(buffer, position, end)
        start, position = position, behind(size * _INT32.size, position, end)
        indexes = [index for (index,) in _INT32.iter_unpack(buffer[start:position])]
        _, position = encoding.tags(buffer, position, end)
        topics.append((topic, indexes))
    return topics, position


def encode(version: int, correlation_id: int, groups: Sequence[GroupCommitted]) -> bytes:
    """Return the response frame with its size prefix; before version 8 there is one group."""
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    pieces = [_INT32.pack(0)] if version >= _FIRST_WITH_THROTTLE else []
    if version >= FIRST_WITH_GROUPS:
        pieces.append(encoding.put_count(len(groups)))
        for group in groups:
            pieces.append(encoding.put_string(group.group_id))
            _put_topics(version, encoding, group, pieces)
            pieces += _INT16.pack(group.error_code), encoding.no_tags
    else:
        _put_topics(version, encoding, groups[0], pieces)
        if version >= FIRST_WITH_GROUP_ERROR:
            pieces.append(_INT16.pack(groups[0].error_code))
    pieces.append(encoding.no_tags)
    body = b"".join(pieces)
    return response_head(API_KEY, version, correlation_id, len(body)) + body


def _put_topics(
    version: int, encoding: Encoding, group: GroupCommitted, pieces: list[bytes]
) -> None:
    pieces.append(encoding.put_count(len(group.topics)))
    for topic, partitions in group.topics:
        pieces += put_topic_key(encoding, topic), encoding.put_count(len(partitions))
        for index, offset, leader_epoch, metadata, error_code in partitions:
            if version >= _FIRST_WITH_LEADER_EPOCH:
                pieces.append(_OFFSET_EPOCH.pack(index, offset, leader_epoch))
            else:
                pieces.append(_OFFSET.pack(index, offset))
            pieces.append(encoding.put_string(metadata))
            pieces += _INT16.pack(error_code), encoding.no_tags
        pieces.append(encoding.no_tags)
