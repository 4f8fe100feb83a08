"""Reports when the broker is ready: to the service manager's socket, or in a file."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from siltstone.broker.process import sockets
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.files import disk

_logger = logging.getLogger(__name__)


class ServiceManager:
    """Reports the broker's state to the service manager: sd_notify(3), without a library.

    systemd passes a socket to a service of ``Type=notify``, in the variable ``NOTIFY_SOCKET``.
    Without this variable nothing is reported. If the socket is gone, a log line says so.
    """

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._clock = clock

    def ready(self, status: str) -> None:
        """Report that clients are served, after the start and after each reload."""
        self._tell(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Report that the settings are being read again; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={int(self._clock.monotonic() * 1_000_000)}")

    def stopping(self) -> None:
        """Report that the stop has begun."""
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is in the abstract namespace, not in a file system.
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            sockets.tell(address, message.encode())
        except OSError as error:
            _logger.warning("service manager not told address=%s reason=%s", self._address, error)


class ReadyFile:
    """The file that says where the broker listens (``--ready-file``). Blocks for a moment.

    The file exists from the moment when the broker is ready until it stops, and is always complete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def clear(self) -> str | None:
        """Remove the file of an earlier broker; return why the file cannot be written, or None."""
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
        """Write the file; return whether that succeeded; if not, the log says why."""
        try:
            data = json.dumps(facts, indent=2).encode() + b"\n"
            files.replace_file(self._path, data, durable=False)
        except OSError as error:
            _logger.error("%s", self._sentence(error))  # noqa: TRY400  # a sentence says it all
            return False
        return True

    def remove(self) -> None:
        """Remove the file: clients are no longer served."""
        with suppress(OSError):
            files.unlink(self._path)

    def _sentence(self, error: OSError) -> str:
        return (
            f"cannot write --ready-file {self._path}: {error.strerror or error}; name another file"
        )
