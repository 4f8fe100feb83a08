"""The moment that a job reads: some partitions, kept as they are while the job runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.pipeline.command.progress import seconds_text
from siltstone.pipeline.errors import SnapshotExpired
from siltstone.pipeline.options import READ_COMMITTED, ReadOptions
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.source.limits import within_limits
from siltstone.pipeline.transports import Source, open_source
from siltstone.pipeline.transports.source import warn_of_moving
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.storage.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The partitions of one moment, and the ranges of offsets to read."""

    view: Manifest
    ranges: "Mapping[TopicPartition, OffsetRange]"
    transport: str
    is_still: bool
    """Whether nothing can change while it is read: a pin holds it, or no broker serves it."""
    began: float
    clock: Clock
    source: Source

    def plan(self, ranges: "Mapping[TopicPartition, OffsetRange] | None" = None) -> list[Split]:
        """Return splits that together read the ranges, by default the ranges of the moment."""
        return self.source.plan(self.view, self.ranges if ranges is None else ranges)

    def plan_by_partition(
        self, ranges: "Mapping[TopicPartition, OffsetRange] | None" = None
    ) -> "dict[TopicPartition, tuple[Split, ...]]":
        """Return the splits of each partition that has any, in the order of their offsets."""
        groups: dict[TopicPartition, list[Split]] = {}
        for split in self.plan(ranges):
            groups.setdefault(split.topic_partition, []).append(split)
        return {
            at: tuple(sorted(group, key=lambda split: split.start_offset))
            for at, group in groups.items()
        }

    def within_limits(
        self, ranges: "Mapping[TopicPartition, OffsetRange]"
    ) -> "dict[TopicPartition, OffsetRange]":
        """Return the first part of some ranges, as long as the options allow."""
        starts = {at: span.start for at, span in ranges.items()}
        ends = {at: span.end for at, span in ranges.items()}
        ends = within_limits(self.view, self.source.options, starts, ends)
        return {at: OffsetRange(starts[at], end) for at, end in ends.items()}

    def check(self) -> None:
        """Check, before a commit, that all rows belong to one moment.

        Raises:
            SnapshotExpired: The pin was lost, or an unpinned scan of a compacted topic took too
                long: a tombstone may be gone whose key was read before.
        """
        self.source.check()
        if self.is_still:
            return
        seconds = self.clock.monotonic() - self.began
        for partition in self.view.partitions:
            limit = partition.safe_ms / 1000
            if partition.is_compacted and seconds > limit:
                raise SnapshotExpired(
                    f"reading {partition.topic_partition} took {seconds_text(seconds)} without a "
                    f"pin, and of its delete.retention.ms only {seconds_text(limit)} are safe: a "
                    "deleted key could come back; read where the broker's folder is visible, so "
                    "that it can pin, or raise delete.retention.ms"
                )


@contextmanager
def moment_of(options: ReadOptions, clock: Clock) -> Iterator[Moment]:
    """Yield the moment that the options ask for; its pin is renewed until the block ends."""
    began = clock.monotonic()
    with open_source(options) as source:
        view = source.view()
        warn_of_moving(view, source.name)
        yield Moment(
            view=view,
            ranges=source.ranges(view),
            transport=source.name,
            is_still=source.name != "fetch",
            began=began,
            clock=clock,
            source=source,
        )


def committed(options: "Mapping[str, str]") -> ReadOptions:
    """Return the options of a job: by default without aborted transactions."""
    return ReadOptions.parse({"isolation": READ_COMMITTED, **options})
