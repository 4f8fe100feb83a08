"""The first offset of each leader epoch (Kafka: ``LeaderEpochFileCache``).

    0
    1
    0 0

The file has a version, a count, and one line ``epoch start_offset`` per epoch. Both columns
increase strictly.
"""

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self

from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, read_entries, write_entries

UNDEFINED: Final = -1
MAX_EPOCH: Final = (1 << 31) - 1


class EpochStart(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start_offset: int


NO_EPOCH: Final = EpochStart(UNDEFINED, UNDEFINED)
_UNKNOWN: Final = (UNDEFINED, UNDEFINED)


class LeaderEpochs:
    """The leader epochs of one partition and their file.

    ``entries`` is a tuple that is replaced in one assignment, so readers need no lock. One owner at
    a time makes changes. A change is on the disk when the method returns, unless ``write`` is
    false: recovery makes many changes and calls `flush` once.
    """

    __slots__ = ("_directory", "entries")

    def __init__(self, directory: Path, entries: Iterable[EpochStart] = ()) -> None:
        self._directory = directory
        self.entries = tuple(entries)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the file of a partition folder; a missing one has no entries.

        Raises:
            MalformedCheckpoint: The file cannot be understood, or a column does not increase.
        """
        path = directory / files.LEADER_EPOCHS
        entries: list[EpochStart] = []
        for number, words in enumerate(read_entries(path, 2), start=3):
            try:
                entry = EpochStart(int(words[0]), int(words[1]))
            except ValueError as error:
                raise MalformedCheckpoint(f"{path} line {number}: {error}") from error
            last = entries[-1] if entries else NO_EPOCH
            if entry.epoch <= last.epoch or entry.start_offset <= last[1]:
                raise MalformedCheckpoint(f"{path} line {number}: it does not increase")
            if entry.epoch > MAX_EPOCH or entry.start_offset > files.MAX_OFFSET:
                raise MalformedCheckpoint(f"{path} line {number}: no log has got so far")
            entries.append(entry)
        return cls(directory, entries)

    @property
    def latest(self) -> int:
        """Return the latest epoch, or -1."""
        return self.entries[-1].epoch if self.entries else UNDEFINED

    def assign(self, epoch: int, offset: int, *, write: bool = True) -> bool:
        """Note that ``epoch`` begins at ``offset``; true if that was new. Blocks if it writes.

        Entries that contradict this are dropped: those of the same or a later epoch, and those that
        begin at the offset or after it.
        """
        if epoch < 0:
            return False
        entries = self.entries
        if entries and epoch == entries[-1].epoch and offset >= entries[-1].start_offset:
            return False
        keep = len(entries)
        while keep and (
            entries[keep - 1].epoch >= epoch or entries[keep - 1].start_offset >= offset
        ):
            keep -= 1
        self._replace((*entries[:keep], EpochStart(epoch, offset)), write=write)
        return True

    def note(self, epoch: int, offset: int) -> None:
        """Note the epoch of a batch that recovery reads, unless it is known; `flush` writes it."""
        if epoch > self.latest:
            self.assign(epoch, offset, write=False)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return an epoch, or the next lower one that exists, and the offset after its last record.

        Returns (-1, -1) if no such epoch is known.
        """
        entries = self.entries
        if not entries or epoch < 0:
            return _UNKNOWN
        latest = entries[-1].epoch
        if epoch >= latest:
            return (epoch, log_end_offset) if epoch == latest else _UNKNOWN
        following = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if not following:
            return epoch, entries[0].start_offset
        return entries[following - 1].epoch, entries[following].start_offset

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of an offset, -1 if it is older than all known epochs."""
        for entry in reversed(self.entries):  # there are few entries, and usually the last is right
            if entry.start_offset <= offset:
                return entry.epoch
        return UNDEFINED

    def truncate_end(self, offset: int, *, write: bool = True) -> None:
        """Drop the epochs that begin at or after ``offset``. Blocks if it writes."""
        kept = tuple(entry for entry in self.entries if entry.start_offset < offset)
        if len(kept) != len(self.entries):
            self._replace(kept, write=write)

    def truncate_start(self, offset: int, *, write: bool = True) -> None:
        """Drop the epochs that end at or before ``offset``; the first one left begins there."""
        entries = self.entries
        following = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        if not following:
            return
        moved = EpochStart(entries[following - 1].epoch, offset)
        kept = (moved, *entries[following:])
        if kept != entries:
            self._replace(kept, write=write)

    def clear(self) -> None:
        """Drop all epochs. Blocks."""
        if self.entries:
            self._replace((), write=True)

    def flush(self) -> None:
        """Write the file. Blocks."""
        write_entries(
            self._directory / files.LEADER_EPOCHS,
            [f"{entry.epoch} {entry.start_offset}" for entry in self.entries],
        )

    def relocate(self, directory: Path) -> None:
        """Note the new path of the folder."""
        self._directory = directory

    def _replace(self, entries: tuple[EpochStart, ...], *, write: bool) -> None:
        self.entries = entries
        if write:
            self.flush()
