"""The legal names and ids: topics, client software, and UUIDs in Kafka's text form.

The rules are those of Kafka's ``Topic``, ``Uuid`` and ``ApiVersionsRequest`` classes.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, TypeAlias
from uuid import UUID

from siltstone.protocol.errors import InvalidTopic

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster, among the resources that rules are for."""
MAX_TOPIC_NAME_LENGTH: Final = 249
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")
RESERVED_IDS: Final = frozenset({UUID(int=0), UUID(int=1)})
"""Ids that Kafka gives to no topic."""

# The first version of each API that has the ids of topics; the numbers of all other versions stand
# in the handlers of their APIs.
FIRST_WITH_TOPIC_ID: Final = 13
"""Of Produce and Fetch."""

FIRST_OFFSETS_WITH_TOPIC_ID: Final = 10
"""Of OffsetCommit and OffsetFetch."""

FIRST_METADATA_BY_ID: Final = 12
FIRST_DELETE_BY_ID: Final = 6

TopicKey: TypeAlias = str | bytes
"""The name of a topic or, from some version on, the 16 bytes of its id (KIP-516)."""


def check_topic_name(name: str) -> None:
    """Refuse a name that is illegal for a topic.

    Raises:
        InvalidTopic: the name is empty, ``.`` or ``..``, is longer than 249 characters, or has a
            character that is not an ASCII letter or digit, ``.``, ``_`` or ``-``.
    """
    if not name:
        raise InvalidTopic("a topic name must not be empty")
    if name in {".", ".."}:
        raise InvalidTopic(f"{name!r} cannot be a topic name, it means a directory")
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopic(
            f"a topic name has at most {MAX_TOPIC_NAME_LENGTH} characters, "
            f"{name[:20]!r}... has {len(name)}"
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopic(
            f"{name!r} cannot be a topic name, use letters, digits, '.', '_' and '-' of ASCII only"
        )


def is_internal(topic: str) -> bool:
    """Tell whether the broker keeps its own state in this topic."""
    return topic in INTERNAL_TOPICS


def is_software_name(text: str) -> bool:
    """Tell whether ApiVersions allows a text as the name or version of a client's software."""
    return _SOFTWARE_NAME.fullmatch(text) is not None


def uuid_text(value: UUID) -> str:
    """Return the 22 characters that Kafka prints and stores for an id: base64url, no padding."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Return the id that `uuid_text` wrote.

    Raises:
        ValueError: the text is not 22 characters of base64url.
    """
    try:
        value = UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError:
        value = None
    if value is None or uuid_text(value) != text:
        raise ValueError(f"{text!r} is not an id: 22 characters of base64url are")
    return value
