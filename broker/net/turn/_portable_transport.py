"""What `_turn_kernels.py` stands on when it runs uncompiled: the names of `_native_transport.pxd`.

Here the descriptor is read and written as a file's is; CPython ignores SIGPIPE.
"""

import os
from errno import EAGAIN, EINTR, EIO

__all__ = ["EAGAIN", "EINTR", "receive_octets", "send_octets"]


def receive_octets(socket: int, data: memoryview, start: int, end: int) -> int:
    """Receive into ``data[start:end]``; return the bytes received or the negative error number."""
    try:
        return os.readv(socket, [data[start:end]])
    except OSError as error:
        return -(error.errno or EIO)


def send_octets(socket: int, data: memoryview, size: int) -> int:
    """Send the first bytes of ``data``; return the bytes sent or the negative error number."""
    try:
        return os.write(socket, data[:size])
    except OSError as error:
        return -(error.errno or EIO)
