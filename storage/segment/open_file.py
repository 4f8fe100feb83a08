"""Open files that live as long as they are used; a limited number stay open for reading."""

from collections import OrderedDict
from collections.abc import Hashable

from siltstone.storage import files, threads

DEFAULT_OPEN_FILES = 512


class SegmentFile:
    """One open file. The descriptor is closed when the last reference goes.

    A `protocol.parts.FileSlice` has a reference to this object, so a range that waits to be sent
    outlives the deletion of its segment and the cleaner's swap.
    """

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the descriptor; it is valid as long as this object lives."""
        return self._fd

    def __del__(self) -> None:
        files.close(self._fd)


class OpenFiles:
    """The files of closed segments that were read last, at most ``limit``; a broker has one object.

    Forgetting a file drops this object's reference only; a slice that is being sent keeps it open.
    A key stands for a segment object and not for a path, which may later belong to another
    segment's file (the cleaner's swap). Any thread may call.
    """

    def __init__(self, limit: int = DEFAULT_OPEN_FILES) -> None:
        self._limit = limit
        self._lock = threads.Lock()
        self._files: OrderedDict[Hashable, SegmentFile] = OrderedDict()  # guarded by: _lock

    def __len__(self) -> int:
        return len(self._files)

    def get(self, key: Hashable) -> SegmentFile | None:
        """Return the file of a key, if it is open."""
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
            return file

    def put(self, key: Hashable, file: SegmentFile) -> None:
        """Keep an open file; above the limit forget the file that was not read for longest."""
        forgotten = []
        with self._lock:
            forgotten.append(self._files.pop(key, None))
            self._files[key] = file
            while len(self._files) > self._limit:
                forgotten.append(self._files.popitem(last=False)[1])
        forgotten.clear()  # closes outside the lock

    def forget(self, key: Hashable) -> None:
        """Drop the file of a key."""
        with self._lock:
            file = self._files.pop(key, None)
        del file  # closes outside the lock
