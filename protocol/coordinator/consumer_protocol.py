"""The bytes that consumers send in JoinGroup and SyncGroup: Kafka's embedded "consumer" protocol.

A classic coordinator need not read these bytes. This coordinator reads them to let classic members
into a consumer group (KIP-848), and to find the topics that a group subscribes to. Newer versions
only add fields, so that any version from 0 can be read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from siltstone.protocol.coordinator.headed import read_bounded, read_head, write_value
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message, consumer_protocol
from siltstone.protocol.parts import Buffer

PROTOCOL_TYPE: Final = "consumer"

_SIZE_BYTES: Final = 4
_MAX_ELEMENTS: Final = 200_000
"""The most topics and partitions in metadata or an assignment; any client may send them."""


class Subscription(NamedTuple):
    """The topics that a member subscribes to, and the partitions that it owned at that moment."""

    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]]
    rack_id: str | None = None


class Assignment(NamedTuple):
    """The partitions of a member, and the data that its leader's own assignor added for it."""

    partitions: Mapping[str, frozenset[int]]
    user_data: bytes = b""


def read_version(data: Buffer) -> int:
    """Return the version of a subscription or an assignment.

    Raises:
        ProtocolError: the version is cut short or negative.
    """
    version = read_head(data)
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return version


def decode_subscription(data: Buffer) -> Subscription:
    """Return the content of a joining consumer's metadata.

    Raises:
        ProtocolError: it is no such metadata.
    """
    topics, _, owned, _, rack_id = _read(consumer_protocol.CONSUMER_PROTOCOL_SUBSCRIPTION, data)
    return Subscription(tuple(topics), _by_topic(owned), rack_id)


def decode_topics(data: Buffer, max_topics: int) -> tuple[list[str], int]:
    """Return the topics in the metadata of a joining consumer, and the position after them.

    Every version has the topics. Later fields are not read, as in Kafka's coordinator: some clients
    name a version and leave out its fields.

    Raises:
        ProtocolError: the bytes are no such metadata, or have more topics than ``max_topics``.
    """
    read_version(data)
    row, end = read_bounded(consumer_protocol.CONSUMER_PROTOCOL_SUBSCRIPTION, 0, data, max_topics)
    return row.topics, end - _SIZE_BYTES - len(row.user_data or b"")


def decode_assignment(data: Buffer) -> Assignment:
    """Return the content of a leader's assignment.

    Raises:
        ProtocolError: the bytes are no such assignment.
    """
    partitions, user_data = _read(consumer_protocol.CONSUMER_PROTOCOL_ASSIGNMENT, data)
    return Assignment(_by_topic(partitions), user_data or b"")


def encode_assignment(partitions: Mapping[str, frozenset[int]], version: int) -> bytes:
    """Return an assignment without user data, in the version of the member's subscription."""
    rows = [(topic, sorted(indexes)) for topic, indexes in sorted(partitions.items())]
    version = min(version, consumer_protocol.CONSUMER_PROTOCOL_ASSIGNMENT.last)
    return write_value(consumer_protocol.CONSUMER_PROTOCOL_ASSIGNMENT, version, (rows, None))


def _read(message: Message, data: Buffer) -> Any:
    return read_bounded(message, min(read_version(data), message.last), data, _MAX_ELEMENTS)[0]


def _by_topic(rows: Iterable[tuple[str, Iterable[int]]]) -> dict[str, frozenset[int]]:
    return {topic: frozenset(indexes) for topic, indexes in rows}
