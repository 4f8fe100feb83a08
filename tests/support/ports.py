"""Ports for servers that keep theirs or cannot take port 0, and addresses as people write them."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 15_000


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on.

    They are below the ports that Linux gives to clients: otherwise a client of this or another test
    could get a server's port while the server is down, even by trying to connect to it.
    """
    chosen: list[int] = []
    draw = random.SystemRandom()  # two processes of tests must not draw the same
    while len(chosen) < count:
        port = draw.randrange(_FIRST, int(_RANGE.read_text().split()[0]))
        if port not in chosen and _is_free(port):
            chosen.append(port)
    return chosen


def address_of(name: str) -> tuple[str, int]:
    """Return the host and the port of ``host:port``."""
    host, _, port = name.rpartition(":")
    return host, int(port)


def _is_free(port: int) -> bool:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
