"""The input of a pass (Kafka: ``LogToClean``): values only, so that a dry run needs no log."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from siltstone.config.topic import TopicConfig
from siltstone.storage.log.log import Log
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from siltstone.cleaner.explaining.stopped_log import StoppedLog  # commands alone load it

NO_OFFSET = -1


class LastOfProducer(NamedTuple):
    """The newest data batch of an active producer; -1 if the producer has only markers."""

    producer_id: int
    epoch: int
    last_data_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """Segments below the first uncleanable offset, oldest first, and facts that decide about them.

    The dirty section is from ``first_dirty_offset``, inclusive, to ``first_uncleanable_offset``,
    exclusive, which is the base of the segment after the last one here. A batch that ends at the
    ``high_watermark`` keeps its header: nothing else has the end of the log. ``aborted`` has the
    aborted transactions of the whole log, since a marker may lie after these segments.
    """

    topic_partition: TopicPartition
    path: Path
    config: TopicConfig
    open_files: OpenFiles
    segments: tuple[ReadableSegment, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    high_watermark: int
    aborted: tuple[AbortedTransaction, ...] = ()
    producers: tuple[LastOfProducer, ...] = ()

    def dirty_segments(self, first_dirty_offset: int) -> list[tuple[ReadableSegment, int]]:
        """Return the segments from the offset on, each with the next one's base."""
        bases = [segment.base_offset for segment in self.segments[1:]]
        bounds = [*bases, self.first_uncleanable_offset]
        return [
            (segment, bound)
            for segment, bound in zip(self.segments, bounds, strict=False)
            if bound > first_dirty_offset
        ]

    @classmethod
    def of(
        cls, log: "Log | StoppedLog", first_dirty_offset: int, first_uncleanable_offset: int
    ) -> Self:
        """Return the input of a pass over a log, as it is now. Reads transaction indexes; blocks.

        Later appends do no harm: they only mean that a batch here is no longer its producer's last.
        """
        segments = log.segments
        return cls(
            topic_partition=log.topic_partition,
            path=log.path,
            config=log.config,
            open_files=segments[-1].files.open_files,
            segments=tuple(
                segment for segment in segments if segment.base_offset < first_uncleanable_offset
            ),
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=first_uncleanable_offset,
            high_watermark=log.log_end_offset,
            aborted=aborted_in(segments),
            producers=last_of_producers(list(log.producers.producers.items())),
        )


def aborted_in(segments: Iterable[ReadableSegment]) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions of segments, by first offset. Blocks."""
    found = [entry for segment in segments for entry in segment.all_aborted_transactions()]
    return tuple(sorted(found, key=lambda entry: entry.first_offset))


def last_of_producers(producers: Iterable[tuple[int, ProducerEntry]]) -> tuple[LastOfProducer, ...]:
    """Return the last data offsets of producers, by id."""
    return tuple(
        sorted(
            LastOfProducer(
                producer_id,
                entry.epoch,
                entry.batches[-1].last_offset if entry.batches else NO_OFFSET,
            )
            for producer_id, entry in producers
        )
    )
