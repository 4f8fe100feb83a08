"""The limits of what the broker stores for clients, with counts of refusals.

Each limit is checked in the one place where it could be exceeded. docs/security.md has the table.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from siltstone.config.server import ServerConfig
from siltstone.protocol.errors import KafkaError, PolicyViolation

MAX_TEXT: Final = 256
"""How many characters of each text that a client reports about itself are kept or shown."""


class Limit(StrEnum):
    """The settings that are limits; those of listeners with NAME for any listener."""

    CONNECTIONS = "max.connections"
    CONNECTIONS_PER_ADDRESS = "max.connections.per.ip"
    CONNECTION_RATE = "max.connection.creation.rate"
    LISTENER_CONNECTIONS = "listener.name.NAME.max.connections"
    LISTENER_RATE = "listener.name.NAME.max.connection.creation.rate"
    LOGIN_TIME = "connections.max.login.ms"
    REQUEST_BYTES = "socket.request.max.bytes"
    LOGIN_BYTES = "sasl.server.max.receive.size"
    QUEUED_BYTES = "queued.max.request.bytes"
    UNREAD_BYTES = "queued.max.response.bytes"
    TOPICS = "topics.max.count"
    PARTITIONS = "partitions.max.count"
    GROUPS = "groups.max.count"
    MEMBER_BYTES = "group.members.max.bytes"
    OFFSET_BYTES = "group.offsets.max.bytes"
    TRANSACTIONAL_IDS = "transactional.ids.max.count"
    TRANSACTION_BYTES = "transactional.ids.max.bytes"
    SHARE_STATE_BYTES = "share.states.max.bytes"
    SUBSCRIPTIONS = "client.metrics.max.count"
    CONFIG_BYTES = "configs.max.bytes"
    SESSION_PARTITIONS = "fetch.session.partitions.max.count"


_WORDS: Final[Mapping[str, str]] = {
    Limit.TOPICS: "topics",
    Limit.PARTITIONS: "partitions",
    Limit.GROUPS: "groups",
    Limit.MEMBER_BYTES: "bytes of members in all groups",
    Limit.OFFSET_BYTES: "bytes of committed offsets",
    Limit.TRANSACTIONAL_IDS: "transactional ids",
    Limit.TRANSACTION_BYTES: "bytes of transactional ids and their open transactions",
    Limit.SHARE_STATE_BYTES: "bytes of states of queues",
    Limit.SUBSCRIPTIONS: "subscriptions to metrics of clients",
    Limit.CONFIG_BYTES: "bytes of settings of topics, groups and subscriptions",
}


class Limits:
    """Counts refusals by the setting that is the limit (loop only)."""

    def __init__(self, settings: Callable[[], ServerConfig]) -> None:
        self.refused: dict[str, int] = dict.fromkeys(Limit, 0)
        self._settings = settings

    def note(self, limit: str) -> None:
        """Count a refusal."""
        self.refused[limit] += 1

    def check_half(self, limit: str, count: int, error: type[KafkaError]) -> None:
        """Refuse a count above half of a limit: a single user may have no more.

        Raises:
            KafkaError: The user would have more; the class is ``error``.
        """
        max_count = getattr(self._settings(), limit.replace(".", "_"))
        if 2 * count > max_count:
            self.note(limit)
            raise error(
                f"a user would have {count} {_WORDS[limit]}, more than half of {max_count}, which "
                f"is {limit}; remove what is no longer used, or set it higher"
            )

    def check(self, limit: str, count: int, error: type[KafkaError] = PolicyViolation) -> None:
        """Refuse a count above a limit.

        Raises:
            KafkaError: There would be too many; the class is ``error``.
        """
        max_count = getattr(self._settings(), limit.replace(".", "_"))
        if count > max_count:
            self.note(limit)
            raise error(
                f"there would be {count} {_WORDS[limit]}, and {limit} is {max_count}; remove what "
                "is no longer used, or set it higher"
            )
