"""The audit log: logins, refusals and changes with the client's name, one JSON object in each line.

The lines go to the logger ``siltstone.audit``, which writes to the file ``audit.log.file``, or
without that to the broker's own log. No line has a key, a value, a password or the value of a
setting. A stranger may cause many refusals, so only some lines are written in a second; the others
are counted in ``others`` of the next line.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.logs import moment_text
from siltstone.storage.clock import Clock
from siltstone.storage.files import disk

_logger = logging.getLogger(__name__)

LOGGER: Final = "siltstone.audit"
_MAX_CHARACTERS: Final = 256
_MODE: Final = 0o600


class AuditFile(logging.Handler):
    """Writes lines to a file that no other user reads; opens a new file after it was moved away."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._fd = -1
        self._is_failing = False
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; if the disk does not take it, the broker's log says so once."""
        try:
            self._follow()
            disk.write(self._fd, record.getMessage().encode() + b"\n")
        except OSError as error:
            if not self._is_failing:
                _logger.error(  # noqa: TRY400  # the traceback says nothing more
                    "audit log cannot be written file=%s reason=%s", self._path, error.strerror
                )
            self._is_failing = True
        else:
            self._is_failing = False

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            disk.close(self._fd)
            self._fd = -1
        super().close()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = disk.open(self._path, flags, _MODE)

    def _follow(self) -> None:
        """Open the file that has the name now, if another file had it before."""
        try:
            status = disk.stat(self._path)
            mine = disk.fstat(self._fd) if self._fd >= 0 else None
            if mine is not None and (mine.st_dev, mine.st_ino) == (status.st_dev, status.st_ino):
                return
        except FileNotFoundError:
            pass
        if self._fd >= 0:
            disk.close(self._fd)
            self._fd = -1
        self._open()


class Audit:
    """Writes the lines (loop only)."""

    def __init__(self, clock: Clock, file: Path | None = None) -> None:
        """Raises OSError if the file cannot be opened."""
        self.refused_count = 0
        self._clock = clock
        self._failed_logins = BoundedLines(clock.monotonic)
        self._refusals = BoundedLines(clock.monotonic)
        self._refused_connections = BoundedLines(clock.monotonic)
        self._logger = logging.getLogger(LOGGER)
        self._handler: AuditFile | None = None
        if file is not None:
            self._handler = AuditFile(file)
            self._logger.addHandler(self._handler)
            self._logger.setLevel(logging.INFO)
            self._logger.propagate = False

    def close(self) -> None:
        """Close the file; further lines go to the broker's own log."""
        if self._handler is not None:
            self._logger.removeHandler(self._handler)
            self._logger.propagate = True
            self._handler.close()
            self._handler = None

    def logged_in(self, principal: str, peer: str, listener: str, mechanism: str) -> None:
        """Note that a client has proven its name."""
        self._write(
            logging.INFO,
            event="login",
            principal=principal,
            peer=peer,
            listener=listener,
            mechanism=mechanism,
        )

    def login_failed(self, peer: str, listener: str, mechanism: str, why: str) -> None:
        """Note a failed login, without the name that the client gave: it may be a password."""
        self._warn(
            self._failed_logins,
            event="login failed",
            peer=peer,
            listener=listener,
            mechanism=mechanism,
            reason=why,
        )

    def refused(self, principal: str, host: str, operation: str, resource: str, name: str) -> None:
        """Note that a client was refused an operation."""
        self.refused_count += 1
        self._warn(
            self._refusals,
            event="refused",
            principal=principal,
            host=host,
            operation=operation,
            resource=resource,
            name=name[:_MAX_CHARACTERS],
        )

    def refused_connection(self, principal: str, peer: str, listener: str, reason: str) -> None:
        """Note that a connection was refused or closed."""
        self._warn(
            self._refused_connections,
            event="connection refused",
            principal=principal,
            peer=peer,
            listener=listener,
            reason=reason[:_MAX_CHARACTERS],
        )

    def changed(self, principal: str, host: str, api: str, changes: list[dict[str, Any]]) -> None:
        """Note that a client has changed or deleted something."""
        for each in changes:
            self._write(
                logging.INFO, event="change", principal=principal, host=host, api=api, **each
            )

    def _warn(self, lines: BoundedLines, /, **fields: Any) -> None:
        """Write a line if the rate allows it, with the number of lines left out since the last."""
        if lines.takes():
            silent = lines.others()
            self._write(logging.WARNING, **fields, **({"others": silent} if silent else {}))

    def _write(self, level: int, /, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            line = {"time": moment_text(self._clock.now_ms()), **fields}
            self._logger.log(level, json.dumps(line))
