"""What the service manager is told: sd_notify(3), without a library.

systemd hands a socket to a service of ``Type=notify``, as the variable ``NOTIFY_SOCKET``. Elsewhere
there is none, and nothing is said.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.storage.clock import Clock

log = logging.getLogger(__name__)


class ServiceManager:
    """Tells whoever started the broker how it is; a socket that is gone is a line in the log."""

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
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.connect(address)
                sock.sendall(message.encode())
        except OSError as error:
            log.warning("service manager not told address=%s reason=%s", self._address, error)
