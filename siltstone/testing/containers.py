"""The broker's image for testcontainers-python, which has to be installed.

The port that the engine maps is known only when the container runs, so it is advertised then::

    with SiltstoneContainer() as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
"""

from __future__ import annotations

import time
from typing import Any, Final, Self

from siltstone.testing.admin import Admin
from siltstone.testing.errors import AskedInVain, StartFailed

try:
    from testcontainers.core.container import DockerContainer
except ImportError as error:
    raise ImportError(
        "siltstone.testing.containers needs testcontainers; pip install testcontainers"
    ) from error

INSIDE_PORT: Final = 9093
"""Where other containers of the same network reach the broker."""

_START_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05


class SiltstoneContainer(DockerContainer):  # type: ignore[misc,unused-ignore]
    """A container of the broker's image; ``port`` is the port inside that is mapped."""

    def __init__(
        self,
        image: str = "siltstone",
        port: int = 9092,
        *,
        start_seconds: float = _START_SECONDS,
        **options: Any,
    ) -> None:
        super().__init__(image, **options)
        self.port = port
        self._start_seconds = start_seconds
        self.with_exposed_ports(port)
        for name, value in {
            "LISTENERS": f"PLAINTEXT://0.0.0.0:{port},INSIDE://0.0.0.0:{INSIDE_PORT}",
            "LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "ADVERTISED_LISTENERS": _advertised(f"localhost:{port}"),
            "GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        }.items():
            self.with_env(f"KAFKA_{name}", value)

    def get_bootstrap_server(self) -> str:
        """Return the bootstrap address for clients outside of containers."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def start(self) -> Self:
        """Start the container; return when clients can reach it at its advertised address.

        Raises:
            StartFailed: The broker does not answer; the text has the last lines of its log.
        """
        super().start()
        host, _, port = self.get_bootstrap_server().rpartition(":")
        admin = Admin((host, int(port)))
        deadline = time.monotonic() + self._start_seconds
        try:
            while not self._is_advertised(admin):
                if time.monotonic() > deadline:
                    raise StartFailed(self._why_not())
                time.sleep(_PAUSE_SECONDS)
        finally:
            admin.close()
        return self

    def _is_advertised(self, admin: Admin) -> bool:
        try:
            admin.alter_broker({"advertised.listeners": _advertised(self.get_bootstrap_server())})
        except AskedInVain:
            return False
        return True

    def _why_not(self) -> str:
        printed = b"".join(self.get_logs()).decode("utf-8", "replace").strip()
        sentence = f"the container of {self.image} does not answer at {self.get_bootstrap_server()}"
        lines = printed.splitlines()[-10:]
        return "\n".join([f"{sentence} after {self._start_seconds:g} s; it printed", *lines])


def _advertised(address: str) -> str:
    """Return the addresses for clients outside and inside; inside it is the container's name."""
    return f"PLAINTEXT://{address},INSIDE://:{INSIDE_PORT}"
