"""How Produce and Fetch name a topic: up to version 12 by name, from 13 on by id (KIP-516)."""

from typing import Final, TypeAlias

from protocol.primitives import Buffer, Encoding, behind

FIRST_WITH_TOPIC_ID: Final = 13
ID_SIZE: Final = 16

TopicKey: TypeAlias = str | bytes
"""The name of a topic, or the 16 bytes of its id."""


def read_topic_key(
    version: int, encoding: Encoding, buffer: Buffer, position: int, end: int
) -> tuple[TopicKey, int]:
    """Read a topic's name or id and return it with the position behind it."""
    if version < FIRST_WITH_TOPIC_ID:
        return encoding.string(buffer, position, end)
    stop = behind(ID_SIZE, position, end)
    return bytes(buffer[position:stop]), stop


def put_topic_key(encoding: Encoding, topic: TopicKey) -> bytes:
    """Write a topic's name or id."""
    return topic if isinstance(topic, bytes) else encoding.put_string(topic)
