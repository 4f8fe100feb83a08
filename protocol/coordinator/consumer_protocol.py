"""What consumers put into JoinGroup and SyncGroup: Kafka's embedded "consumer" protocol.

Opaque to the classic coordinator, but not to one that takes classic members into a consumer group
(KIP-848) or asks which topics a group subscribes to. An int16 version, then classic encoding;
newer versions only add fields, so that any version from 0 is read.

Subscription: topics; user data; v1 owned partitions; v2 generation; v3 rack.
Assignment: partitions by topic; user data.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from protocol.coordinator.fields import FieldReader
from protocol.errors import ProtocolError
from protocol.primitives import CLASSIC, Buffer

PROTOCOL_TYPE: Final = "consumer"

_NEWEST: Final = 3
_INT16 = Struct(">h")
_INT32 = Struct(">i")


class Subscription(NamedTuple):
    """What a member asks for; partitions are those that it owned when it asked."""

    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]]
    rack_id: str | None = None


class Assignment(NamedTuple):
    """What a member was given, and what a leader's assignor of its own told it besides."""

    partitions: Mapping[str, frozenset[int]]
    user_data: bytes = b""


def read_version(data: Buffer) -> int:
    """Return the version of a subscription or an assignment.

    Raises:
        ProtocolError: it is cut short or negative.
    """
    version = FieldReader(data, CLASSIC).number(_INT16)
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return version


def decode_subscription(data: Buffer) -> Subscription:
    """Return what the metadata of a joining consumer says.

    Raises:
        ProtocolError: it is no such metadata.
    """
    version = read_version(data)
    reader = FieldReader(data, CLASSIC, _INT16.size)
    topics = tuple(reader.array(FieldReader.string))
    reader.nullable_data()
    owned = _read_partitions(reader) if version >= 1 else {}
    if version >= 2:
        reader.number(_INT32)
    return Subscription(topics, owned, reader.nullable_string() if version >= 3 else None)


def decode_assignment(data: Buffer) -> Assignment:
    """Return what a leader assigned.

    Raises:
        ProtocolError: it is no such assignment.
    """
    read_version(data)
    reader = FieldReader(data, CLASSIC, _INT16.size)
    return Assignment(_read_partitions(reader), reader.nullable_data() or b"")


def encode_assignment(partitions: Mapping[str, frozenset[int]], version: int) -> bytes:
    """Return an assignment without user data, in the version that the member's subscription has."""
    pieces = [_INT16.pack(min(version, _NEWEST)), CLASSIC.put_count(len(partitions))]
    for topic, indexes in sorted(partitions.items()):
        pieces += CLASSIC.put_string(topic), CLASSIC.put_count(len(indexes))
        pieces += map(_INT32.pack, sorted(indexes))
    return b"".join((*pieces, CLASSIC.put_size(-1)))


def _read_partitions(reader: FieldReader) -> dict[str, frozenset[int]]:
    return dict(reader.array(lambda topic: (topic.string(), frozenset(topic.numbers(_INT32)))))
