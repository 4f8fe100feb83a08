"""Why an address cannot be bound, and what to do about it."""

import errno
import os
import socket
from typing import Final

_REMEDIES: Final = {
    errno.EADDRINUSE: "stop what uses the address, or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have it; choose one of its own, or none for all",
    errno.EACCES: "ports below 1024 are for root; choose a higher one",
}
_OTHER: Final = "choose another address"


def why_not_bound(error: OSError) -> str:
    """Return the message of the kernel or the resolver, and the remedy."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; give an address of this machine, or a name that resolves here"
    number = error.errno or 0
    # The event loop replaces strerror by its own message.
    words = os.strerror(number) if number else str(error)
    return f"{words}; {_REMEDIES.get(number, _OTHER)}"
