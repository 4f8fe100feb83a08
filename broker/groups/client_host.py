"""The host of a member as Kafka prints it: ``/10.0.0.7``, ``/0:0:0:0:0:0:0:1``."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


def client_host(peer: str) -> str:
    """Return the host of a peer, which log lines print with its port."""
    return _spell(peer.rpartition(":")[0])


@lru_cache(maxsize=1024)  # asked with every heartbeat
def _spell(host: str) -> str:
    address = ip_address(host.strip("[]").partition("%")[0])
    if address.version == 4:
        return f"/{address}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
