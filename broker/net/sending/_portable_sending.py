"""What `_sending_kernels.py` stands on when it runs uncompiled: the names of `_native_sending.pxd`.

Plain Python would hold the GIL between calls, so no sender runs like this but in tests.
"""

import os
import select
import socket as sockets
import sys
from errno import EAGAIN, EINTR, EIO

__all__ = [
    "EAGAIN",
    "EINTR",
    "EIO",
    "report",
    "send_file",
    "send_octets",
    "wait_for_room",
    "watch_again",
]

_ONCE = select.EPOLLOUT | select.EPOLLONESHOT


def wait_for_room(epoll: int) -> int:
    """Wait for one socket that has room, or for the descriptor that ends the threads."""
    with select.epoll.fromfd(os.dup(epoll)) as watched:
        return watched.poll(maxevents=1)[0][0]


def watch_again(epoll: int, socket: int) -> None:
    """Have a socket reported once more, when it has room again."""
    with select.epoll.fromfd(os.dup(epoll)) as watched:
        watched.modify(socket, _ONCE)


def send_file(socket: int, file: int, position: int, count: int) -> int:
    """Return the bytes sent, or the negative error number."""
    try:
        return os.sendfile(socket, file, position, count)
    except OSError as error:
        return -(error.errno or EIO)


def send_octets(socket: int, octets: int, count: int) -> int:
    """Return how many of the last bytes of a number were sent, or the negative error number."""
    data = octets.to_bytes(8, sys.byteorder, signed=True)[-count:]
    held = sockets.socket(fileno=os.dup(socket))
    try:
        return held.send(data)
    except OSError as error:
        return -(error.errno or EIO)
    finally:
        held.close()


def report(done: int, socket: int) -> None:
    """Write the number of a socket that is done with."""
    os.write(done, socket.to_bytes(8, sys.byteorder))
