"""The name of a queue: a group and a partition of a topic (Kafka: SharePartitionKey)."""

from typing import NamedTuple
from uuid import UUID

from siltstone.protocol.names import uuid_text


class ShareKey(NamedTuple):
    """One share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the text by which Kafka chooses the partition of ``__share_group_state``."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"
