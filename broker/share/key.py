"""The name of a queue (Kafka: SharePartitionKey), and of records in it."""

from typing import Final, NamedTuple
from uuid import UUID

from siltstone.protocol.names import parse_uuid, uuid_text


class ShareKey(NamedTuple):
    """One share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the text by which Kafka chooses the partition of ``__share_group_state``."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "ShareKey":
        """Return the queue that a text names, as FindCoordinator has it.

        Raises:
            ValueError: The text has not the form of a group, an id and a number with colons.
        """
        parts = text.rstrip(":").rsplit(":", 2)
        if len(parts) < _PARTS or not parts[0].strip():
            raise ValueError(f"{text!r} is no group, topic id and partition with colons")
        group_id, topic_id, partition = parts
        return cls(group_id, parse_uuid(topic_id), int(partition))


_PARTS: Final = len(ShareKey._fields)


class Letters(NamedTuple):
    """Neighbouring records of a queue that are given up, for the same reason."""

    key: ShareKey
    first: int
    last: int
    deliveries: int
    is_rejected: bool

    @property
    def cause(self) -> str:
        """The reason in Kafka's words."""
        if self.is_rejected:
            return "Offset rejected by client."
        return "Offset delivery count exceeded the threshold."
