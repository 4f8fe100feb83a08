"""The names of this machine, which settings need: a part of the seam of the network.

It stands here since settings import no part of a broker; that has its own in
`siltstone.broker.process.sockets`. A simulator sets both functions before settings are read.
"""

import socket
from functools import cache


def own_name() -> str:
    """Return the name that this machine has for itself; nobody else is asked."""
    return socket.gethostname()


@cache
def public_name() -> str:
    """Return the name by which other machines look up this one. May ask the resolver, once.

    Raises:
        ValueError: The name does not resolve, so that advertising it would strand every client.
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
