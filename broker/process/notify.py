"""Tells the broker's starter when it is ready: by the service manager's socket, or by a file."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siltstone.broker.process import sockets
from siltstone.storage import files
from siltstone.storage.files import disk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from siltstone.storage.clock import Clock

_logger = logging.getLogger(__name__)


class ServiceManager:
    """Tells the service manager how the broker is: sd_notify(3), without a library.

    systemd hands a socket to a service of ``Type=notify``, as the variable ``NOTIFY_SOCKET``.
    Elsewhere no socket is given, and nothing is said. A socket that is gone is a line in the log.
    """

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._clock = clock

    def ready(self, status: str) -> None:
        """Say that clients are served, at first and after a reload."""
        self._tell(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that the settings are read again; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={int(self._clock.monotonic() * 1_000_000)}")

    def stopping(self) -> None:
        """Say that the stop has begun."""
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is a name that no file system has.
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            sockets.tell(address, message.encode())
        except OSError as error:
            _logger.warning("service manager not told address=%s reason=%s", self._address, error)


class ReadyFile:
    """The file that says where the broker listens (``--ready-file``). Blocks for a moment.

    It exists from the moment at which the broker is ready until it stops, always whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def clear(self) -> str | None:
        """Remove what an earlier broker left; return why the file cannot be written, if so."""
        folder = self._path.absolute().parent
        try:
            files.unlink(self._path)
        except OSError as error:
            return self._sentence(error)
        if not files.is_folder(folder):
            return f"cannot write --ready-file {self._path}: there is no folder {folder}; make it"
        if not disk.access(folder, os.W_OK):
            return f"cannot write --ready-file {self._path}: {folder} is not writable; allow it"
        return None

    def write(self, facts: Mapping[str, Any]) -> bool:
        """Write it; tell whether that went well, else why is in the log."""
        try:
            data = json.dumps(facts, indent=2).encode() + b"\n"
            files.replace_file(self._path, data, durable=False)
        except OSError as error:
            _logger.error("%s", self._sentence(error))  # noqa: TRY400  # a sentence says it all
            return False
        return True

    def remove(self) -> None:
        """Remove it: clients are no longer served."""
        with suppress(OSError):
            files.unlink(self._path)

    def _sentence(self, error: OSError) -> str:
        return (
            f"cannot write --ready-file {self._path}: {error.strerror or error}; name another file"
        )
