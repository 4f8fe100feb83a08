"""ConsumerGroupHeartbeat requests and responses by hand: each member sends one every few seconds.

Versions 0 and 1, both flexible; v1 a regular expression (KIP-848). kio is the oracle in tests.

Request: group id, member id, member epoch int32, instance id?, rack id?, rebalance timeout int32,
topic names[]?, v1 regular expression?, assignor?, owned partitions[]? (topic id, partitions[]).
Response: throttle time int32, error int16, message?, member id?, member epoch int32, heartbeat
interval int32, assignment? (-1, or 1 and partitions[] as above).
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from protocol.headers import response_head
from protocol.primitives import COMPACT, behind, skip_tags

API_KEY: Final = 68
_FIRST_WITH_REGEX: Final = 1
_UUID_SIZE: Final = 16
_NO_ID: Final = bytes(_UUID_SIZE)

_INT32 = Struct(">i")
_HEAD = Struct(">ih")  # throttle time, error
_TIMES = Struct(">ii")  # member epoch, heartbeat interval
_UNCHANGED: Final = b"\xff\0"  # no assignment, no tagged fields
_PRESENT: Final = b"\1"


class ConsumerHeartbeat(NamedTuple):
    """What a member says; None, and a rebalance timeout of -1, is "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned: dict[UUID, frozenset[int]] | None


def parse(version: int, buffer: memoryview, position: int, end: int) -> ConsumerHeartbeat:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    A topic that is listed twice has the partitions of both; one without an id is left out.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    string, nullable = COMPACT.string, COMPACT.nullable_string
    group_id, position = string(buffer, position, end)
    member_id, position = string(buffer, position, end)
    member_epoch, position = _read_int32(buffer, position, end)
    instance_id, position = nullable(buffer, position, end)
    rack_id, position = nullable(buffer, position, end)
    rebalance_timeout_ms, position = _read_int32(buffer, position, end)
    names, position = _read_names(buffer, position, end)
    regex = None
    if version >= _FIRST_WITH_REGEX:
        regex, position = nullable(buffer, position, end)
    assignor, position = nullable(buffer, position, end)
    owned, position = _read_partitions(buffer, position, end)
    skip_tags(buffer, position, end)
    return ConsumerHeartbeat(
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        names,
        regex,
        assignor,
        owned,
    )


def encode(
    correlation_id: int,
    member_id: str,
    member_epoch: int,
    heartbeat_interval_ms: int,
    assignment: Mapping[UUID, Iterable[int]] | None,
) -> bytes:
    """Return the frame of an answer with its size prefix; an assignment of None is "as before"."""
    name = COMPACT.put_string(member_id)
    times = _TIMES.pack(member_epoch, heartbeat_interval_ms)
    assigned = _UNCHANGED if assignment is None else _put_assignment(assignment)
    return _frame(correlation_id, _HEAD.pack(0, 0) + b"\0" + name + times + assigned)


def encode_error(correlation_id: int, error_code: int, message: str | None) -> bytes:
    """Return the frame of a refusal with its size prefix."""
    head = _HEAD.pack(0, error_code) + COMPACT.put_string(message) + COMPACT.put_string(None)
    return _frame(correlation_id, head + _TIMES.pack(0, 0) + _UNCHANGED)


def _frame(correlation_id: int, body: bytes) -> bytes:
    return response_head(API_KEY, 1, correlation_id, len(body)) + body


def _read_int32(buffer: memoryview, position: int, end: int) -> tuple[int, int]:
    stop = behind(_INT32.size, position, end)
    return _INT32.unpack_from(buffer, position)[0], stop


def _read_names(buffer: memoryview, position: int, end: int) -> tuple[tuple[str, ...] | None, int]:
    count, position = COMPACT.count(buffer, position, end, -1)
    if count < 0:
        return None, position
    names = []
    for _ in range(count):
        name, position = COMPACT.string(buffer, position, end)
        names.append(name)
    return tuple(names), position


def _read_partitions(
    buffer: memoryview, position: int, end: int
) -> tuple[dict[UUID, frozenset[int]] | None, int]:
    count, position = COMPACT.count(buffer, position, end, -1)
    if count < 0:
        return None, position
    owned: dict[UUID, frozenset[int]] = {}
    for _ in range(count):
        start, position = position, behind(_UUID_SIZE, position, end)
        key = bytes(buffer[start:position])
        size, position = COMPACT.count(buffer, position, end)
        start, position = position, behind(size * _INT32.size, position, end)
        partitions = frozenset(each for (each,) in _INT32.iter_unpack(buffer[start:position]))
        position = skip_tags(buffer, position, end)
        if key != _NO_ID:
            topic_id = UUID(bytes=key)
            owned[topic_id] = owned.get(topic_id, frozenset()) | partitions
    return owned, position


def _put_assignment(assignment: Mapping[UUID, Iterable[int]]) -> bytes:
    pieces = [_PRESENT, COMPACT.put_count(len(assignment))]
    for topic_id, partitions in assignment.items():
        ordered = sorted(partitions)
        pieces += topic_id.bytes, COMPACT.put_count(len(ordered))
        pieces += map(_INT32.pack, ordered)
        pieces.append(COMPACT.no_tags)
    return b"".join((*pieces, COMPACT.no_tags, COMPACT.no_tags))
