"""The interface of all transports, and the partitions that options name."""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from siltstone.pipeline.errors import BadOption, SourceUnavailable
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.planning.plan import plan_splits
from siltstone.pipeline.planning.ranges import OffsetRange, find_in_files, resolve
from siltstone.pipeline.planning.split import Split
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)


class Source(ABC):
    """Topics at one place; a context manager that closes what `view` opened."""

    name: ClassVar[str]
    """``pinned``, ``fetch`` or ``archive``."""
    is_live = False
    """Whether the files of a view may change while they are read."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def view(self) -> Manifest:
        """Return the partitions of the options, as they are now."""

    def find(self, partition: PinnedPartition, timestamp: int) -> int | None:
        """Return the offset of the first record at or after a time, or None."""
        return find_in_files(partition, timestamp)

    def ranges(self, view: Manifest) -> dict[TopicPartition, OffsetRange]:
        """Return the ranges of offsets of the options."""
        return resolve(view, self.options, self.find)

    def plan(
        self, view: Manifest, ranges: Mapping[TopicPartition, OffsetRange] | None = None
    ) -> list[Split]:
        """Return splits that together read the ranges once."""
        wanted = self.ranges(view) if ranges is None else ranges
        return plan_splits(view, self.options, wanted, transport=self.name, is_live=self.is_live)

    def check(self) -> None:  # noqa: B027  # likewise
        """Check that the files of the last view have existed until now.

        Raises:
            SnapshotExpired: they may be gone.
        """

    def leave(self) -> None:  # noqa: B027  # only a pin has a lease
        """Leave the files of the last view to their readers, which renew their lease."""

    @abstractmethod
    def close(self) -> None:
        """Close everything that `view` opened. Idempotent."""


def warn_of_moving(view: Manifest, transport: str) -> None:
    """Warn that keys may be missing where a compacted topic is read without a pin."""
    moving = sorted({each.topic for each in view.partitions if each.is_compacted})
    if transport == "fetch" and moving:
        _logger.warning(
            "%s is compacted and read over the network, where nothing holds it still: a key that "
            "gets another value meanwhile, and whose old one is cleaned away, is missing; where "
            "its producers do not rest, read where the broker's folder is visible, so that it pins",
            ", ".join(moving),
        )


def select(
    options: ReadOptions, there: Iterable[TopicPartition], where: str
) -> list[TopicPartition]:
    """Return those of the existing partitions that the options name.

    Raises:
        SourceUnavailable: a named topic or partition does not exist.
        BadOption: the pattern is no regular expression.
    """
    known = sorted(there)
    if options.assign:
        missing = sorted(set(options.assign) - set(known))
        if missing:
            raise SourceUnavailable(f"there is no partition {missing[0]} {where}")
        return list(options.assign)
    if options.subscribe_pattern:
        try:
            pattern = re.compile(options.subscribe_pattern)
        except re.error as error:
            raise BadOption(
                f"subscribePattern={options.subscribe_pattern} is no regular expression: {error}"
            ) from error
        return [key for key in known if pattern.fullmatch(key.topic)]
    absent = sorted(set(options.subscribe) - {key.topic for key in known})
    if absent:
        raise SourceUnavailable(f"there is no topic {absent[0]} {where}")
    return [key for key in known if key.topic in options.subscribe]
