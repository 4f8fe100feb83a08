"""A partition as its readers see it: offsets, ranges of files, lookups (storage.md §5).

Nothing here takes a lock or changes the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from siltstone.protocol.errors import (
    CorruptMessage,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
)
from siltstone.storage.log import timestamp_lookup
from siltstone.storage.log.read_kernels import ReadLog
from siltstone.storage.log.timestamp_lookup import TimestampedOffset
from siltstone.storage.log.view import find_index
from siltstone.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from siltstone.storage.log.recovery import LoadedPartition
    from siltstone.storage.log.services import LogServices


class ReadableLog(ReadLog):
    """The offsets and segments of one partition.

    Invariants: log start offset <= last stable offset <= high watermark = log end offset (one
    replica); segment bases strictly increase; the first base <= log start offset.

    A reader of any thread takes ``_view`` once. What it holds stays valid, whatever is appended
    or deleted meanwhile; an append shows after its bytes are written.
    """

    __slots__ = ("epochs", "topic_id", "topic_partition")

    def __init__(self, loaded: "LoadedPartition", services: "LogServices") -> None:
        super().__init__(loaded, services)
        self.topic_partition = loaded.folder.topic_partition
        self.topic_id = loaded.topic_id
        self.epochs = loaded.epochs

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """Return the segments from the oldest to the active one."""
        return self._view[1]

    def available_bytes(self, offset: int, upto: int) -> int:
        """Return the bytes that a read of ``offset`` could come to, over all segments."""
        if self._closed:
            raise self._absence()
        with self._reading():
            return self._reader.available_bytes(self._view, offset, upto)

    def aborted_transactions(self, offset: int, next_offset: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of each aborted transaction in a range.

        ``offset`` is inclusive; ``next_offset`` is exclusive, that of the `LogRead`. A
        transaction too many is harmless to a consumer, one that is missing is not (storage.md
        §5.4).
        """
        segments = self._view[1]
        aborted: list[tuple[int, int]] = []
        with self._reading():
            for segment in segments[find_index(segments, offset) :]:
                found, complete = segment.aborted_transactions(offset, next_offset)
                aborted += [(each.producer_id, each.first_offset) for each in found]
                if complete:
                    break
        return aborted

    def find_offset_by_timestamp(self, timestamp: int, upto: int) -> TimestampedOffset | None:
        """Return the first record below ``upto`` from this time on. Blocks: io thread."""
        with self._reading():
            found = timestamp_lookup.find_at_or_after(self._view, timestamp, self.log_start_offset)
        return found if found is not None and found.offset < upto else None

    def find_max_timestamp(self, upto: int) -> TimestampedOffset | None:
        """Return the first record of the greatest timestamp, if below ``upto``. Blocks."""
        with self._reading():
            found = timestamp_lookup.find_max(self._view)
        return found if found is not None and found.offset < upto else None

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch in which an offset was written; -1 if unknown."""
        return self.epochs.epoch_of(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to ``epoch`` and the offset after it; (-1, -1): undefined."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def _absence(self) -> NotLeaderOrFollower:
        return NotLeaderOrFollower(
            f"{self.topic_partition} is not here: deleted, or the broker stops"
        )

    def _out_of_range(self, offset: int, end_offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"offset {offset} of {self.topic_partition} is outside "
            f"{self.log_start_offset}..{end_offset}"
        )

    def _unreadable(self, error: OSError) -> KafkaStorageError:
        """Return the refusal of this read; whoever reads elsewhere, or writes, goes on."""
        sentence = f"files of {self.topic_partition} can not be read: {error}; check the disk"
        self.directory.report_once(sentence)
        return KafkaStorageError(sentence)

    def _damaged(self, error: CorruptMessage) -> CorruptMessage:
        sentence = f"{self.topic_partition} is damaged: {error.message}"
        self.directory.report_once(sentence)
        return CorruptMessage(sentence)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unreadable(error) from error
        except CorruptMessage as error:
            raise self._damaged(error) from error
