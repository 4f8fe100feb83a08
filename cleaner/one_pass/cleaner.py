"""One pass over one log: map, group, copy, swap (Kafka: ``Cleaner``).

The dirty section's keys go into an offset map of fixed memory. If the map becomes full, the pass
covers the log only up to that offset. Then all segments from the log's start up to the end of the
map are rewritten, group by group (docs/compaction.md). A group's new segment is written as
``.cleaned`` and fsynced, and then replaces the old ones (`storage.log.log.Log.replace_segments`);
the next group follows. The caller writes the checkpoint last. A crash costs work, never a record.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Self

from siltstone.cleaner.one_pass.grouping import group_segments
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.output import CountedOutput, SegmentOutput, drop_unfinished
from siltstone.cleaner.one_pass.reading import Copying, Mapping, SegmentWalk
from siltstone.cleaner.one_pass.stats import GroupFacts, PassResult, Prediction, Progress, result_of
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core import compaction
from siltstone.storage.clock import Clock
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.randomness import random_bytes
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment

Replace = Callable[[Sequence[LogSegment], Sequence[ReadableSegment]], None]
"""Swaps new segments for old ones: `storage.log.log.Log.replace_segments`."""

CHUNK_BYTES: Final = 1 << 18
"""The bytes of a call of the core: its buffers fit the second cache of a processor.

It is Kafka's default, too.
"""
_SECRET_BYTES: Final = 16
"""Of the map's secret, without which nobody can make keys with one digest."""


class PassClock:
    """The seconds of each phase (map, copy, swap), with the waits for the throttle."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.phase = "map"
        self.seconds: dict[str, float] = {}

    def begin(self) -> None:
        """Reset all counts."""
        self.phase = "map"
        self.seconds = {"map": 0.0, "copy": 0.0, "swap": 0.0}

    @contextmanager
    def phase_of(self, phase: str) -> Iterator[None]:
        """Add the time that a ``with`` block takes to a phase."""
        self.phase = phase
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] += self._clock.monotonic() - began


class Cleaner:
    """The tools of one cleaner thread: its map, its buffers, and the present pass.

    ``dedupe_buffer_bytes`` is this thread's share. The map's memory is allocated when a pass begins
    and freed when the pass ends or fails.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        throttle: Throttle,
        dedupe_buffer_bytes: int,
        load_factor: float = 0.9,
        io_buffer_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._clock = clock
        self._map = compaction.OffsetMap(
            dedupe_buffer_bytes, random_bytes(_SECRET_BYTES), load_factor
        )
        if self._map.usable <= 1:
            raise ValueError(
                f"an offset map of {dedupe_buffer_bytes} bytes has room for {self._map.usable} "
                "keys; raise log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        self._walk = SegmentWalk(io_buffer_bytes, throttle)
        self._times = PassClock(clock)
        self._log: LogToClean | None = None  # the present pass; read by any thread through progress
        self._bytes_total = 0

    @classmethod
    def of(cls, settings: CleanerSettings, clock: Clock, throttle: Throttle) -> Self:
        """Return the cleaner that one cleaner thread gets by the settings."""
        return cls(
            clock=clock,
            throttle=throttle,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes,
        )

    @property
    def progress(self) -> Progress | None:
        """Return the progress of the pass, None between passes. Any thread may ask."""
        log = self._log
        if log is None:
            return None
        return Progress(
            topic_partition=log.topic_partition,
            phase=self._times.phase,
            bytes_done=self._walk.bytes_read,
            bytes_total=self._bytes_total,
        )

    def clean(
        self, log: LogToClean, replace: Replace, still_wanted: Callable[[], None]
    ) -> PassResult:
        """Clean a log once. Blocks; most of the time without the GIL.

        ``still_wanted`` is called before every chunk and every swap, and raises to end the pass.
        Groups that were swapped stay swapped.

        Raises:
            CorruptSegment: A batch is damaged; its group is as it was.
            OSError: The disk failed; the group is as it was.
        """
        drop_unfinished(log.path)
        return self._run(log, replace, still_wanted)

    def dry_run(self, log: LogToClean, still_wanted: Callable[[], None]) -> Prediction:
        """Predict the result of `clean`, and how many passes the log needs. Writes nothing; blocks.

        Raises:
            CorruptSegment: A batch is damaged.
            OSError: The disk failed.
        """
        result = self._run(log, None, still_wanted)
        passes = 1
        end_offset = result.end_offset
        while end_offset < log.first_uncleanable_offset:
            with self._map:
                self._begin(still_wanted)
                mapping = self._fill_map(log, end_offset)
            passes += 1
            end_offset = mapping.latest + 1
        read = sum(fact.size for group in result.groups for fact in group.inputs)
        total = sum(segment.size for segment in log.segments)
        return Prediction(
            result=result, passes=passes, bytes_after=total - read + result.bytes_written
        )

    def close(self) -> None:
        """Free the memory that is kept between passes: the read buffer."""
        self._walk.close()

    def _run(
        self, log: LogToClean, replace: Replace | None, still_wanted: Callable[[], None]
    ) -> PassResult:
        """Run a pass; without ``replace`` nothing is written."""
        self._log = log
        self._bytes_total = _bytes_to_read(log)
        try:
            with self._map:
                started_ms = self._begin(still_wanted)
                mapped = self._fill_map(log, log.first_dirty_offset)
                map_bytes_read = self._walk.bytes_read
                transactions = compaction.Transactions(log.aborted)
                copied = compaction.RecordFilter(
                    self._map,
                    transactions,
                    latest=mapped.latest,
                    now_ms=started_ms,
                    retention_ms=log.config.delete_retention_ms,
                    high_watermark=log.high_watermark,
                    producers=log.producers,
                )
                groups = self._copy_groups(log, replace, copied, transactions, started_ms)
                return result_of(
                    log,
                    self._map,
                    mapped,
                    copied,
                    groups,
                    started_ms=started_ms,
                    map_bytes_read=map_bytes_read,
                    bytes_read=self._walk.bytes_read - map_bytes_read,
                    times=self._times.seconds,
                    throttle_seconds=self._walk.throttle_seconds,
                )
        finally:
            self._log = None
            self._walk.shrink()

    def _begin(self, still_wanted: Callable[[], None]) -> int:
        """Reset the counts for a pass, and return its "now"."""
        self._times.begin()
        self._walk.begin(still_wanted)
        return self._clock.now_ms()

    def _fill_map(self, log: LogToClean, first_dirty_offset: int) -> compaction.MapBuilder:
        """Fill the map from the dirty section; return the builder that filled it."""
        with self._times.phase_of("map"):
            mapping = Mapping(log, first_dirty_offset, self._map, self._walk)
            mapping.run()
            return mapping.builder

    def _copy_groups(
        self,
        log: LogToClean,
        replace: Replace | None,
        copied: compaction.RecordFilter,
        transactions: "compaction.Transactions[AbortedTransaction]",
        now_ms: int,
    ) -> tuple[GroupFacts, ...]:
        """Copy the records that stay, and swap each group when its copy is on the disk."""
        groups = group_segments(
            log.segments,
            log.config,
            end_offset=copied.latest + 1,
            first_uncleanable_offset=log.first_uncleanable_offset,
        )
        copying = Copying(copied, self._walk, log.config.max_decompressed_message_bytes)
        facts = []
        for group in groups:
            base_offset = group[0].base_offset
            if replace is None:
                output = CountedOutput(log, base_offset)
                with self._times.phase_of("copy"):
                    inputs = copying.copy(group, output)
                output.cover(group)
                facts.append(GroupFacts(inputs, output.facts()))
                continue
            written = SegmentOutput(log, base_offset, now_ms)
            with written:
                with self._times.phase_of("copy"):
                    inputs = copying.copy(group, written)
                    written.cover(group)
                    written.flush(transactions.take_kept(), group[-1].files.modified_ns)
                self._walk.still_wanted()
                with self._times.phase_of("swap"):
                    replace(written.hand_over(), group)
            facts.append(GroupFacts(inputs, written.facts()))
        return tuple(facts)


def _bytes_to_read(log: LogToClean) -> int:
    """Return how many bytes the two readings of a pass, map and copy, will read together."""
    dirty = sum(segment.size for segment, _ in log.dirty_segments(log.first_dirty_offset))
    return dirty + sum(segment.size for segment in log.segments)
