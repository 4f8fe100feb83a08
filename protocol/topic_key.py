"""How Produce and Fetch name a topic: up to version 12 by name, from 13 on by id (KIP-516)."""

from typing import Final, TypeAlias

FIRST_WITH_TOPIC_ID: Final = 13

TopicKey: TypeAlias = str | bytes
"""The name of a topic, or the 16 bytes of its id."""
