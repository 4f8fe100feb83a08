"""A compacted log in a folder; a test cleans it, crashes and opens it again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import PassResult
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import SLOT_BYTES, TRANSACTIONAL
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import build_marker
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.logs import LogFolder, bytes_of, validated

COMPACT = TopicConfig(cleanup_policy=("compact",), delete_retention_ms=1000)


class CompactedFolder(LogFolder):
    """A `LogFolder` with a cleaner and its checkpoint."""

    def __init__(
        self,
        root: Path,
        config: TopicConfig = COMPACT,
        *,
        usable: int = 1 << 16,
        chunk: int = 1 << 18,
        **settings: Any,
    ) -> None:
        super().__init__(root, replace(config, **settings))
        self.first_dirty_offset = 0
        self.cleaner = self.new_cleaner(usable, chunk)

    def new_cleaner(self, usable: int, chunk: int = 1 << 18) -> Cleaner:
        """Return a cleaner whose map has room for so many keys."""
        return Cleaner(
            clock=self.clock,
            throttle=Throttle(self.clock),
            dedupe_buffer_bytes=usable * SLOT_BYTES,
            load_factor=1.0,
            io_buffer_bytes=chunk,
        )

    def write(self, *rows: Row, timestamp: int = TIMESTAMP, **fields: int) -> int:
        """Append a batch and return its base offset; `codec` and header fields may be given."""
        batch = make_batch(list(rows), timestamp=timestamp, **fields)
        return self.log.append(validated(batch), Origin.REPLICATION).base_offset

    def write_transactional(self, producer_id: int, *rows: Row, sequence: int = 0) -> int:
        """Append a batch of a transaction."""
        return self.write(
            *rows,
            flags=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )

    def write_marker(self, producer_id: int, kind: int, epoch: int = 0) -> int:
        """Append the marker that ends a transaction."""
        marker = build_marker(0, TIMESTAMP, kind, 0, producer_id=producer_id, producer_epoch=epoch)
        return self.log.append(validated(marker), Origin.COORDINATOR).base_offset

    def roll(self) -> None:
        """Begin a segment: what is before it becomes cleanable."""
        self.log.roll()

    def to_clean(self, upto: int | None = None) -> LogToClean:
        """Return the input of the next pass: all below the active segment, or below ``upto``."""
        active = self.log.segments[-1].base_offset
        return LogToClean.of(
            self.log,
            first_dirty_offset=self.first_dirty_offset,
            first_uncleanable_offset=active if upto is None else upto,
        )

    def clean(
        self, still_wanted: Callable[[], None] | None = None, upto: int | None = None
    ) -> PassResult:
        """Make a pass, compare it with its prediction, and take its checkpoint."""
        log = self.to_clean(upto)
        prediction = self.cleaner.dry_run(log, go_on)
        result = self.cleaner.clean(log, self.log.replace_segments, still_wanted or go_on)
        assert prediction.result.effect == result.effect
        self.first_dirty_offset = result.end_offset
        return result

    def headers(self) -> list[BatchHeader]:
        """Return the headers of all batches."""
        return [header for header, _ in self.batches()]

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """Return all batches."""
        data = bytes_of(self.log, self.log.log_start_offset)
        found, position = [], 0
        while position < len(data):
            header = BatchHeader.read(data, position)
            found.append((header, data[position : position + header.size]))
            position += header.size
        return found

    def records(self) -> list[Record]:
        """Return all records, markers too."""
        return [record for _, batch in self.batches() for record in iterate_records(batch)]

    def rows(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return offset, key and value of all records that are no markers."""
        return [
            (record.offset, record.key, record.value)
            for header, batch in self.batches()
            if not header.is_control
            for record in iterate_records(batch)
        ]

    def offsets(self) -> list[int]:
        """Return the offsets of all records that are no markers."""
        return [offset for offset, _, _ in self.rows()]


def content(log: Log) -> bytes:
    """Return all bytes of a log."""
    return bytes_of(log, log.log_start_offset)


def no_swap(new: Sequence[LogSegment], old: Sequence[ReadableSegment]) -> None:
    """Fail: the pass must end before this."""
    raise AssertionError(f"{new} would take the place of {old}")


def go_on() -> None:
    """Let a pass go on."""
