"""The topics as groups know them: names, ids, partition counts, and a version."""

from collections.abc import Iterable, KeysView
from hashlib import blake2b
from struct import Struct
from typing import Protocol
from uuid import UUID

_HASH = Struct(">q")
_COUNT = Struct(">i")


class ImageTopic(Protocol):
    """One topic."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def id(self) -> UUID:
        """Its id."""

    @property
    def partitions(self) -> int:
        """How many partitions it has."""


class TopicImage(Protocol):
    """The topics as they are now; they never change within a transition. The registry is one.

    `version` rises when a topic is created, grows or is deleted.
    """

    @property
    def version(self) -> int:
        """The number of changes so far."""

    def names(self) -> KeysView[str]:
        """Return the names of all topics."""

    def find(self, name: str) -> ImageTopic | None:
        """Return a topic by its name."""

    def find_id(self, topic_id: UUID) -> ImageTopic | None:
        """Return a topic by its id."""


def hash_topics(names: Iterable[str], image: TopicImage) -> int:
    """Return a number that changes when one of these topics is created, grows, or is deleted.

    0 means that there is no topic. Kafka computes another number, so a group that moves from one
    broker to the other is assigned again once.
    """
    topics = sorted((topic for topic in map(image.find, names) if topic is not None), key=_name)
    if not topics:
        return 0
    digest = blake2b(digest_size=_HASH.size)
    for topic in topics:
        digest.update(topic.id.bytes + _COUNT.pack(topic.partitions) + topic.name.encode() + b"\0")
    number: int = _HASH.unpack(digest.digest())[0]
    return number


def _name(topic: ImageTopic) -> str:
    return topic.name
