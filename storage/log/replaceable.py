"""A partition whose closed segments can be replaced by cleaned ones (storage.md §8.11)."""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.protocol.errors import KafkaError
from siltstone.storage.log.dropped_segments import DroppedSegments
from siltstone.storage.log.frozen import FrozenLog
from siltstone.storage.log.name_gate import NameGate
from siltstone.storage.log.read_kernels import LogReader
from siltstone.storage.log.readable import ReadableLog
from siltstone.storage.log.view import base_offset_of
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.segment.swap import SegmentSwap

if TYPE_CHECKING:
    from siltstone.storage.log.recovery import LoadedPartition
    from siltstone.storage.log.services import LogServices
    from siltstone.storage.segment.readable import ReadableSegment


class ReplaceableLog(ReadableLog):
    """What a log has for the cleaner: its locks, and the swap that is not finished yet.

    Renames and fsyncs happen outside of ``lock``, which is held to publish the new segments only.
    On the disk the order is that of `SegmentSwap`; a crash at any point leaves the old segments or
    the new ones.
    """

    __slots__ = (
        "_abandoned",
        "_flush_lock",
        "_swap",
        "names",
        "path",
    )

    def __init__(self, loaded: "LoadedPartition", services: "LogServices") -> None:
        super().__init__(loaded, services)
        self.path = loaded.folder.path  # changes when the folder is renamed for deletion
        self.names = NameGate()
        self._flush_lock = (
            threading.Lock()
        )  # held by who writes into the folder; the loop never takes it
        self._abandoned = False  # the folder goes; background work stops
        self._swap: SegmentSwap | None = None  # owned by who cleans

    def replace_segments(self, new: Sequence[LogSegment], old: Iterable["ReadableSegment"]) -> None:
        """Have cleaned segments take the place of old ones (storage.md §8.11). Blocks.

        ``new`` are ``.cleaned``, complete and flushed, and belong to the log from now on. One
        thread at a time, and nothing else may take segments away meanwhile: the cleaner's states
        see to that. Readers go by the old segments up to one moment and by the new ones after it.
        What the disk refused is not held against the directory; see `finish_swap`.

        Raises:
            OSError: The disk failed. If it was before that moment the log is as it was, otherwise
            it serves the new segments and only their names are not final.
            NotLeaderOrFollower: The log is closed.
        """
        self.finish_swap()
        chosen = set(old)
        swap = SegmentSwap(self.path, new, [each for each in self.segments if each in chosen])
        self._swap = swap
        try:
            with self._flush_lock:  # a flush of the old ones would write to files of the new ones
                swap.begin()
                self._publish(swap)
        except (OSError, KafkaError):
            with suppress(OSError):
                self.finish_swap()
            raise
        self.finish_swap()

    @property
    def has_unfinished_swap(self) -> bool:
        """Tell whether the disk failed in the middle of `replace_segments`."""
        return self._swap is not None

    def finish_swap(self) -> None:
        """Go on with a swap in which the disk failed: to its end, or back. Blocks.

        Until then no segment may be cleaned. A start does the same.

        Raises:
            OSError: The disk still fails.
        """
        swap = self._swap
        if swap is None:
            return
        with self._flush_lock, self.names.changing():
            if swap.is_published:
                swap.end()
            else:
                swap.undo()
        self._swap = None
        if swap.is_published:
            gone = DroppedSegments(
                swap.old,
                swap.snapshots,
                self.directory,
                self._services,
                self.names,
                lambda: self._abandoned,
            )
            self._services.deletions.schedule(self.config.file_delete_delay_ms, gone.unlink)

    def _publish(self, swap: SegmentSwap) -> None:
        """Show readers the new segments, in one assignment.

        Old ones that are gone already, by retention, are not missed (KAFKA-7278).
        """
        bases = {segment.base_offset for segment in swap.new}
        chosen = set(swap.old)
        with self.lock:
            if self._closed:
                raise self._refusal()
            end_offset, segments, end_position = self._view
            kept = [segment for segment in segments if segment not in chosen]
            merged = sorted([*kept, *swap.new], key=base_offset_of)
            for segment in swap.new:
                segment.reconfigure(self.config)
            self._view = (end_offset, tuple(merged), end_position)
            self._reader = LogReader()
            self.size += sum(segment.size for segment in merged)
            self.size -= sum(segment.size for segment in segments)
            for segment in swap.old:
                if segment.base_offset not in bases:
                    snapshot = self.producers.forget_snapshot(segment.base_offset)
                    if snapshot is not None:
                        swap.snapshots.append(snapshot)
            swap.is_published = True

    def freeze(self, first_dirty_offset: int = 0) -> FrozenLog:
        """Return the log as it is, and keep the names of its files until `names` is released.

        For the event loop: memory only. The cleaner's first dirty offset is noted with the rest.

        Raises:
            NotLeaderOrFollower: The log is closed.
        """
        with self.lock:
            if self._closed:
                raise self._absence()
            self.names.hold()
            end_offset, segments, end_position = self._view
            return FrozenLog(
                topic_partition=self.topic_partition,
                topic_id=self.topic_id,
                path=self.path,
                directory=self.directory.path,
                segments=segments,
                sizes=(*(segment.size for segment in segments[:-1]), end_position),
                log_start_offset=self.log_start_offset,
                log_end_offset=end_offset,
                last_stable_offset=self.last_stable_offset,
                first_dirty_offset=first_dirty_offset,
                is_compacted=self.config.is_compacted,
                delete_retention_ms=self.config.delete_retention_ms,
                names=self.names,
            )

    def _refusal(self) -> KafkaError:
        return self._absence() if self._closed else self.directory.refuse()
