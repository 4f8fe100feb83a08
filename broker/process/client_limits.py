"""The limits of what the broker stores for clients, with counts of refusals.

Each limit is checked in the one place where it could be exceeded. docs/security.md has the table.
"""

from collections.abc import Callable
from typing import Final

from siltstone.config.server import ServerConfig
from siltstone.protocol.errors import KafkaError, PolicyViolation

CONNECTIONS: Final = "max.connections"
CONNECTIONS_PER_ADDRESS: Final = "max.connections.per.ip"
CONNECTION_RATE: Final = "max.connection.creation.rate"
LISTENER_CONNECTIONS: Final = "listener.name.NAME.max.connections"
LISTENER_RATE: Final = "listener.name.NAME.max.connection.creation.rate"
LOGIN_TIME: Final = "connections.max.login.ms"
REQUEST_BYTES: Final = "socket.request.max.bytes"
LOGIN_BYTES: Final = "sasl.server.max.receive.size"
QUEUED_BYTES: Final = "queued.max.request.bytes"
UNREAD_BYTES: Final = "queued.max.response.bytes"
TOPICS: Final = "topics.max.count"
PARTITIONS: Final = "partitions.max.count"
GROUPS: Final = "groups.max.count"
MEMBER_BYTES: Final = "group.members.max.bytes"
OFFSET_BYTES: Final = "group.offsets.max.bytes"
TRANSACTIONAL_IDS: Final = "transactional.ids.max.count"
TRANSACTION_BYTES: Final = "transactional.ids.max.bytes"
SUBSCRIPTIONS: Final = "client.metrics.max.count"
CONFIG_BYTES: Final = "configs.max.bytes"
SESSION_PARTITIONS: Final = "fetch.session.partitions.max.count"

MAX_TEXT: Final = 256
"""How many characters of each text that a client reports about itself are kept or shown."""

_WORDS: Final = {
    TOPICS: "topics",
    PARTITIONS: "partitions",
    GROUPS: "groups",
    MEMBER_BYTES: "bytes of members in all groups",
    OFFSET_BYTES: "bytes of committed offsets",
    TRANSACTIONAL_IDS: "transactional ids",
    TRANSACTION_BYTES: "bytes of transactional ids and their open transactions",
    SUBSCRIPTIONS: "subscriptions to metrics of clients",
    CONFIG_BYTES: "bytes of settings of topics, groups and subscriptions",
}


class Limits:
    """Counts refusals by the setting that is the limit (loop only)."""

    def __init__(self, settings: Callable[[], ServerConfig]) -> None:
        self.refused = dict.fromkeys(
            (
                CONNECTIONS,
                CONNECTIONS_PER_ADDRESS,
                CONNECTION_RATE,
                LISTENER_CONNECTIONS,
                LISTENER_RATE,
                LOGIN_TIME,
                REQUEST_BYTES,
                LOGIN_BYTES,
                QUEUED_BYTES,
                UNREAD_BYTES,
                TOPICS,
                PARTITIONS,
                GROUPS,
                MEMBER_BYTES,
                OFFSET_BYTES,
                TRANSACTIONAL_IDS,
                TRANSACTION_BYTES,
                SUBSCRIPTIONS,
                CONFIG_BYTES,
                SESSION_PARTITIONS,
            ),
            0,
        )
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
