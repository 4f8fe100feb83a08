"""Records of ``__transaction_state``: a transactional id and what its coordinator knows of it.

Kafka's ``TransactionLogKey`` (0) and ``TransactionLogValue`` (0, and 1 with compact lengths and
tagged fields, which is written from ``transaction.version`` 1 on, KIP-890). No value: the id has
expired.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from protocol.coordinator.fields import FieldReader, check_text
from protocol.errors import ProtocolError
from protocol.primitives import CLASSIC, COMPACT, Buffer, Encoding, behind, put_varint

NO_PRODUCER_ID: Final = -1
FIRST_FLEXIBLE: Final = 1
NEWEST: Final = 1

_KEY_VERSION: Final = 0
_EMPTY: Final = 0  # the state that writes null for its partitions
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_HEAD = Struct(">hqhib")  # version, producer id, epoch, time-out, status
_TIMES = Struct(">qq")  # last update, start
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2
_TAGGED: Final = {_PREVIOUS_ID: _INT64, _NEXT_ID: _INT64, _CLIENT_VERSION: _INT16}


class TransactionLogValue(NamedTuple):
    """One value; partitions are (topic, index), none in a state that has none."""

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: frozenset[tuple[str, int]]
    started_ms: int
    updated_ms: int
    client_version: int


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id."""
    return _INT16.pack(_KEY_VERSION) + CLASSIC.put_string(transactional_id)


def decode_key(key: Buffer) -> str | None:
    """Return the transactional id that a key names; None for a key of another kind.

    Raises:
        ProtocolError: It is cut short, or the id is too long.
    """
    reader = FieldReader(key, CLASSIC)
    return reader.string() if reader.number(_INT16) == _KEY_VERSION else None


def encode_value(value: TransactionLogValue, version: int = NEWEST) -> bytes:
    """Return a value; version 0 has no room for other producer ids and the client's version."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    pieces = [
        _HEAD.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.status)
    ]
    if value.status == _EMPTY:
        pieces.append(encoding.put_count(-1))
    else:
        pieces.append(_put_partitions(value.partitions, version))
    pieces.append(_TIMES.pack(value.updated_ms, value.started_ms))
    if encoding is COMPACT:
        pieces.append(_put_tags(value))
    return b"".join(pieces)


def decode_value(value: Buffer) -> TransactionLogValue:
    """Return what a value of version 0 or 1 says.

    Raises:
        ProtocolError: It is cut short, or of a version that nobody knows.
    """
    end = len(value)
    position = behind(_HEAD.size, 0, end)
    version, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(value)
    if not 0 <= version <= NEWEST:
        raise ProtocolError(f"a transaction's value has version {version}; {NEWEST} is known")
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    partitions, position = _read_partitions(encoding, value, position, end)
    updated_ms, started_ms = _TIMES.unpack_from(value, behind(_TIMES.size, position, end) - 16)
    spans, _ = encoding.tags(value, position + _TIMES.size, end)
    numbers = {
        tag: FieldReader(value, encoding, *spans[tag]).number(form)
        for tag, form in _TAGGED.items()
        if tag in spans
    }
    return TransactionLogValue(
        producer_id=producer_id,
        previous_producer_id=numbers.get(_PREVIOUS_ID, NO_PRODUCER_ID),
        next_producer_id=numbers.get(_NEXT_ID, NO_PRODUCER_ID),
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        started_ms=started_ms,
        updated_ms=updated_ms,
        client_version=numbers.get(_CLIENT_VERSION, 0),
    )


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the indexes of each topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


@lru_cache(maxsize=1024)
def _put_partitions(partitions: frozenset[tuple[str, int]], version: int) -> bytes:
    """Write the array of topics; a producer has the same ones in one transaction after another."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    topics = group_by_topic(partitions)
    pieces = [encoding.put_count(len(topics))]
    for topic, indexes in topics.items():
        pieces += encoding.put_string(topic), encoding.put_count(len(indexes))
        pieces += map(_INT32.pack, indexes)
        pieces.append(encoding.no_tags)
    return b"".join(pieces)


def _read_partitions(
    encoding: Encoding, value: Buffer, position: int, end: int
) -> tuple[frozenset[tuple[str, int]], int]:
    partitions = set()
    topics, position = encoding.count(value, position, end, -1)
    for _ in range(topics):
        topic, position = encoding.string(value, position, end)
        check_text(topic)
        indexes, position = encoding.count(value, position, end)
        behind(indexes * _INT32.size, position, end)
        for _ in range(indexes):
            partitions.add((topic, _INT32.unpack_from(value, position)[0]))
            position += _INT32.size
        _, position = encoding.tags(value, position, end)
    return frozenset(partitions), position


def _put_tags(value: TransactionLogValue) -> bytes:
    """Write the tagged fields that are not at their default."""
    tags = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_ID, _INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != NO_PRODUCER_ID:
        tags.append((_NEXT_ID, _INT64.pack(value.next_producer_id)))
    if value.client_version:
        tags.append((_CLIENT_VERSION, _INT16.pack(value.client_version)))
    return put_varint(len(tags)) + b"".join(
        put_varint(tag) + put_varint(len(field)) + field for tag, field in tags
    )
