"""The names of this machine, which settings need: a part of the network's seam.

This module is here because settings import no part of the broker; the broker has its part of the
seam in `siltstone.broker.process.sockets`. A simulator replaces both functions before settings are
read.
"""

import socket
from functools import cache


def own_name() -> str:
    """Return this machine's own name; no resolver is asked."""
    return socket.gethostname()


@cache
def public_name() -> str:
    """Return the name by which other machines look up this machine. May ask the resolver once.

    Raises:
        ValueError: The name does not resolve, so no client could connect to it.
    """
    name = own_name()
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError as error:
        raise ValueError(
            f"would advertise this machine's name {name}, which does not resolve ({error}); "
            "set advertised.listeners to an address that clients reach"
        ) from error
    return found[0][3] or name
