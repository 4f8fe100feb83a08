"""``cleaner-history.jsonl``: every pass as a line of JSON, with a receipt of its files.

Each log directory has one such file. Its size is bounded: at `MAX_BYTES` the file is renamed to
``.1``, and an older ``.1`` is deleted. Lines are appended without fsync: after a power failure the
last lines may be cut or missing, and a reader skips lines that are not JSON.
"""

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from siltstone.storage import files, threads

FILE_NAME = "cleaner-history.jsonl"
OLD_FILE_NAME = f"{FILE_NAME}.1"
KIND = "pass"
"""The kind of event that says how a pass ended; others are for ``siltstone verify``."""
MAX_BYTES = 8 << 20
MAX_IN_MEMORY = 1000

_logger = logging.getLogger(__name__)


class History:
    """The events of all log directories; the newest are also in memory.

    Cleaner threads append, one at a time; any thread reads `recent`. If a line cannot be written,
    that is logged once. The pass goes on, and the event is in memory and in the broker's log.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threads.Lock()
        self._failed: set[Path] = set()  # guarded by: _lock
        self._recent: deque[dict[str, Any]] = deque(maxlen=MAX_IN_MEMORY)

    def load(self, directories: Iterable[Path]) -> None:
        """Read the newest events of the files. Blocks.

        A file that cannot be read is skipped.
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
        size = files.find_size(str(path)) or 0
        if size and size + len(line) > self._max_bytes:
            files.rename(path, path.with_name(OLD_FILE_NAME))
        fd = files.open_file(path, create=True)
        try:
            size = files.size_of(fd)
            if size and files.read_at(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # a crash has cut the line before: end it
            files.write_all(fd, line, size)
        finally:
            files.close(fd)


def read_history(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a log directory, the oldest first; other lines are skipped."""
    for name in (OLD_FILE_NAME, FILE_NAME):
        try:
            lines = files.read_whole(directory / name).splitlines()
        except FileNotFoundError:
            continue
        yield from filter(None, map(parse_event, lines))


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Return the event of a line; None for any other line, such as one that a crash has cut."""
    try:
        event: Any = json.loads(line)
    except ValueError:
        return None
    return event if _is_event(event) else None


def _is_event(event: Any) -> bool:
    """Tell whether a line has the fields that every event has; readers rely on them."""
    return (
        isinstance(event, dict)
        and isinstance(event.get("topic"), str)
        and isinstance(event.get("partition"), int)
        and isinstance(event.get("started_ms"), int)
        and isinstance(event.get("outcome"), str)
    )
