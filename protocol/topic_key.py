"""The key by which requests name a topic: its name, from some version on its id (KIP-516)."""

from typing import Final, TypeAlias

FIRST_WITH_TOPIC_ID: Final = 13
"""Of Produce and Fetch."""

FIRST_OFFSETS_WITH_TOPIC_ID: Final = 10
"""Of OffsetCommit and OffsetFetch."""

FIRST_METADATA_BY_ID: Final = 12
FIRST_DELETE_BY_ID: Final = 6

TopicKey: TypeAlias = str | bytes
"""The name of a topic, or the 16 bytes of its id."""
