"""``cleaner-history.jsonl``: every pass as a line of JSON, with a receipt of what it made of what.

One file for each log directory. It is bounded: at `MOST_BYTES` it becomes ``.1``, and the ``.1``
that there was goes. Lines are appended and not fsynced: after a power failure the last may be cut
or missing, and a reader passes over what is no JSON.
"""

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from siltstone.storage import files

FILE_NAME = "cleaner-history.jsonl"
OLD_FILE_NAME = f"{FILE_NAME}.1"
KIND = "pass"
"""The kind of event that tells how a pass ended; others are for who verifies."""
MOST_BYTES = 8 << 20
MOST_IN_MEMORY = 1000

_logger = logging.getLogger(__name__)


class History:
    """The events of all log directories, the newest in memory too.

    Cleaner threads append, one at a time; anybody reads `recent`. A disk that takes no line stops
    no pass: it is said once, and the event is in memory and in the log.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._failed: set[Path] = set()  # guarded by: _lock
        self._recent: deque[dict[str, Any]] = deque(maxlen=MOST_IN_MEMORY)

    def load(self, directories: Iterable[Path]) -> None:
        """Read what there is, so that the newest events are at hand. Blocks.

        A file that cannot be read stops nobody.
        """
        found: list[dict[str, Any]] = []
        for directory in directories:
            try:
                found += (each for each in read_history(directory) if each.get("event") == KIND)
            except OSError as error:
                _logger.warning(
                    "cleaner history cannot be read directory=%s error=%s", directory, error
                )
        found.sort(key=lambda event: int(event["started_ms"]))
        self._recent.extend(found)

    def recent(self) -> list[dict[str, Any]]:
        """Return the newest events, the oldest of them first."""
        return list(self._recent)

    def append(self, directory: Path, event: dict[str, Any]) -> None:
        """Add an event to the file of a log directory. Blocks."""
        if event.get("event") == KIND:
            self._recent.append(event)
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._write(directory / FILE_NAME, line)
                self._failed.discard(directory)
            except OSError as error:
                if directory not in self._failed:
                    self._failed.add(directory)
                    _logger.warning(
                        "cleaner history cannot be written; passes go on without receipts "
                        "directory=%s error=%s",
                        directory,
                        error,
                    )

    def _write(self, path: Path, line: bytes) -> None:
        fd = files.open_file(path, create=True)
        try:
            size = os.fstat(fd).st_size
            if size and size + len(line) > self._most_bytes:
                files.rename(path, path.with_name(OLD_FILE_NAME))
                os.close(fd)
                fd = files.open_file(path, create=True)
                size = 0
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # behind a line that a crash has cut
            files.write_all(fd, line, size)
        finally:
            os.close(fd)


def read_history(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a log directory, the oldest first; what is none is passed over."""
    for name in (OLD_FILE_NAME, FILE_NAME):
        try:
            lines = (directory / name).read_bytes().splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # cut by a crash
                continue
            if _is_event(event):
                yield event


def _is_event(event: Any) -> bool:
    """Tell whether a line has what every event has: whoever reads the file may rely on it."""
    return (
        isinstance(event, dict)
        and isinstance(event.get("topic"), str)
        and isinstance(event.get("partition"), int)
        and isinstance(event.get("started_ms"), int)
        and isinstance(event.get("outcome"), str)
    )
