"""Segments of made-up batches, for tests of what is stored in them."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.batch import BatchHeader, stamp
from siltstone.storage.files import segment_file_name
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment

NOW_MS = 1_700_000_000_000


def make_segment(
    directory: Path,
    config: TopicConfig | None = None,
    *,
    base_offset: int = 0,
    open_files: OpenFiles | None = None,
) -> LogSegment:
    """Return a new, empty segment."""
    return LogSegment(
        directory,
        base_offset,
        config or TopicConfig(),
        now_ms=NOW_MS,
        open_files=OpenFiles() if open_files is None else open_files,
    ).create()


def load_segment(
    directory: Path,
    config: TopicConfig | None = None,
    *,
    base_offset: int = 0,
    open_files: OpenFiles | None = None,
) -> LogSegment:
    """Return a segment that is in a folder already."""
    return LogSegment(
        directory,
        base_offset,
        config or TopicConfig(),
        now_ms=NOW_MS,
        open_files=OpenFiles() if open_files is None else open_files,
    ).load()


def append(segment: LogSegment, batch: bytes | bytearray) -> int:
    """Append a batch whose offsets are right already, and return its position."""
    header = BatchHeader.read(batch)
    position = segment.end.size
    segment.end.write(segment, batch, len(batch))
    segment.end.note(segment, len(batch), header.last_offset, header.max_timestamp)
    return position


def append_next(
    segment: LogSegment, batches: Iterable[bytearray], *, first: int = 0, leader_epoch: int = 0
) -> list[int]:
    """Append batches one after the other, stamping offsets from ``first`` on; return positions."""
    positions, offset = [], first
    for batch in batches:
        stamp(batch, 0, offset, leader_epoch)
        positions.append(append(segment, batch))
        offset = BatchHeader.read(batch).next_offset
    return positions


def open_files(folder: Path) -> list[str]:
    """Name the folder's files that this process holds open, one name for each descriptor."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by another thread meanwhile
            file = descriptor.readlink()
            if file.parent == folder:
                names.append(file.name)
    return names


def room_of(folder: Path, base_offset: int) -> int:
    """Return the bytes of the disk that the ``.log`` of a segment takes."""
    return (folder / segment_file_name(base_offset)).stat().st_blocks * 512
