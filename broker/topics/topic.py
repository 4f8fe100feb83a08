"""One topic as the registry knows it."""

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from siltstone.config.topic import TopicConfig
from siltstone.protocol.names import is_internal
from siltstone.storage.log.log import Log

Form: TypeAlias = tuple[int, int, int]
"""The key of an answer's bytes besides their content: API, version, operations."""

MAX_FORMS: Final = 4
"""How many forms of the same are kept; the clients of a broker ask in a few."""

T = TypeVar("T")


def keep(kept: dict[Form, T], form: Form, answer: T) -> None:
    """Keep an answer beside those in other versions; if there are too many, drop the others."""
    if len(kept) >= MAX_FORMS:
        kept.clear()
    kept[form] = answer


class Topic:
    """One topic (loop only). ``logs`` has None for a partition that cannot be served.

    ``answers`` has the topic's part of the answers to Metadata and DescribeTopicPartitions as
    bytes; their handlers `keep` them there. It is emptied when partitions change, since nothing
    else in these parts ever changes.
    """

    __slots__ = (
        "answers", "config", "failed_produces", "id", "is_internal", "key", "logs", "name",
        "overrides",
    )  # fmt: skip

    def __init__(self, name: str, topic_id: UUID, logs: tuple[Log | None, ...]) -> None:
        self.name = name  # constant, like id, key and is_internal
        self.id = topic_id
        self.key = topic_id.bytes
        self.is_internal = is_internal(name)
        self.logs = logs
        self.overrides: Mapping[str, str] = {}
        self.config: TopicConfig
        self.answers: dict[Form, bytes] = {}
        self.failed_produces = 0  # batches refused, for the metrics

    @property
    def partitions(self) -> int:
        """How many partitions there are, including those that cannot be served."""
        return len(self.logs)
