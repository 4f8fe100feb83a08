"""Pins: hard links to the files of partitions as they were at one moment.

docs/decisions/0011-pins.md says why pins are links. A pin lies in ``.pins/<id>/`` of each log
directory. It copies no byte of a log. The cleaner still replaces segments and retention still
deletes them, but their blocks stay on the disk until the pin ends. Indexes that are in memory are
written to files of the pin, of 80 KiB at most, so that readers of an active segment need not walk
it from its start. Nothing of a pin is durable: a start deletes all pins.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from siltstone.protocol.names import uuid_text
from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.log.frozen import FrozenLog
from siltstone.storage.topic_partition import TopicPartition


class PinnedSegment(NamedTuple):
    """One segment of a pin: only the first ``size`` bytes of its ``.log`` belong to the pin.

    ``files`` are the kinds of its files. Device and inode identify the ``.log``.
    """

    base_offset: int
    size: int
    is_active: bool
    largest_timestamp: int
    files: tuple[str, ...]
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPartition:
    """A partition of a pin: where its links lie, and its offsets at the moment of the pin.

    Below ``first_dirty_offset`` the cleaner has left one record per key; 0 before the first pass.
    """

    topic_partition: TopicPartition
    topic_id: str
    folder: Path
    log_start_offset: int
    end_offset: int
    last_stable_offset: int
    first_dirty_offset: int
    is_compacted: bool
    delete_retention_ms: int
    segments: tuple[PinnedSegment, ...]

    @property
    def size(self) -> int:
        """Return the bytes of log that are pinned."""
        return sum(segment.size for segment in self.segments)


def link(pin_id: str, logs: Sequence[FrozenLog]) -> tuple[PinnedPartition, ...]:
    """Link the files of frozen logs, and release their names. Blocks.

    Raises:
        OSError: The disk refuses, or the file system has no hard links; no link is left.
    """
    waiting = list(reversed(logs))
    try:
        pinned = []
        while waiting:
            log = waiting[-1]
            log.names.wait_for_changes()
            pinned.append(_link_partition(pin_id, log))
            waiting.pop().names.release()
        return tuple(pinned)
    except Exception:
        with suppress(OSError):  # if this fails, the next start deletes them
            remove(pin_id, dict.fromkeys(log.directory for log in logs))
        raise
    finally:
        for log in waiting:
            log.names.release()


def remove(pin_id: str, directories: Iterable[Path]) -> None:
    """Delete the links of a pin, as far as they exist. Blocks.

    Raises:
        OSError: The links in a log directory cannot be deleted.
    """
    for directory in directories:
        files.remove_folder(directory / files.PINS / pin_id, durably=False)


def remove_empty(directories: Iterable[Path]) -> None:
    """Delete the folders of pins that are empty. Blocks."""
    for directory in directories:
        with suppress(OSError):  # the folder is not empty, or missing
            disk.rmdir(directory / files.PINS)


def sweep(directory: Path) -> int:
    """Delete all pins of a log directory, and return how many there were. Blocks.

    Raises:
        OSError: The log directory does not let them be deleted.
    """
    folder = directory / files.PINS
    try:
        count = len(files.list_names(folder))
    except FileNotFoundError:
        return 0
    files.remove_folder(folder, durably=False)
    return count


def held_bytes(pins: Sequence[Sequence[PinnedPartition]]) -> list[int]:
    """Return for each pin how many bytes of logs are on the disk only because of pins. Blocks.

    A file in several pins counts for each of them.
    """
    links: Counter[tuple[int, int]] = Counter(
        (segment.device, segment.inode)
        for pin in pins
        for partition in pin
        for segment in partition.segments
    )
    return [
        sum(
            segment.size
            for partition in pin
            for segment in partition.segments
            if _count_links(partition.folder, segment) <= links[segment.device, segment.inode]
        )
        for pin in pins
    ]


def _link_partition(pin_id: str, log: FrozenLog) -> PinnedPartition:
    folder = log.directory / files.PINS / pin_id / str(log.topic_partition)
    for each in (folder.parents[1], folder.parent, folder):
        files.create_folder(each, durably=False)
    return PinnedPartition(
        topic_partition=log.topic_partition,
        topic_id=uuid_text(log.topic_id),
        folder=folder,
        log_start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        first_dirty_offset=log.first_dirty_offset,
        is_compacted=log.is_compacted,
        delete_retention_ms=log.delete_retention_ms,
        segments=tuple(_link_segments(log, folder)),
    )


def _link_segments(log: FrozenLog, folder: Path) -> Iterator[PinnedSegment]:
    """Link the files of all segments; both folders are open, so that no path is walked again."""
    with files.open_folder(log.path) as source, files.open_folder(folder) as target:
        names = frozenset(files.list_names(source))
        for segment, size in zip(log.segments, log.sizes, strict=True):
            indexes = segment.sample_indexes(size, log.log_end_offset)
            kinds = segment.files.link(source, target, names, indexes)
            name = files.segment_file_name(segment.base_offset)
            device, inode = files.find_identity(name, target)
            yield PinnedSegment(
                base_offset=segment.base_offset,
                size=size,
                is_active=segment is log.segments[-1],
                largest_timestamp=segment.max_timestamp,
                files=kinds,
                device=device,
                inode=inode,
            )


def _count_links(folder: Path, segment: PinnedSegment) -> int:
    """Return how many names a pinned ``.log`` has; 0 if the pin's name is gone or unreadable."""
    try:
        return disk.stat(folder / files.segment_file_name(segment.base_offset)).st_nlink
    except OSError:  # an unreadable file counts as held by the pin
        return 0
