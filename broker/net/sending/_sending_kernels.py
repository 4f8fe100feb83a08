"""What a sender thread does all its life: file ranges to sockets, as far as each one takes them.

Compiled, it never holds the GIL; plain Python does, and is for tests. The columns stand in
``slots.py``, the types of C in ``_sending_kernels.pxd``.
"""
# ruff: noqa: F403, F405  # the columns and the names of C's side, as `cimport` has them

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.broker.net.sending._portable_sending import *
    from siltstone.broker.net.sending.slots import *
    from siltstone.protocol.records._portable import acquire_numbers, no_numbers, release_numbers

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled


def serve(epoll: int, stop: int, done: int, table: "Buffer") -> None:
    """Send what the rows of ``table`` say until ``stop``, which ``epoll`` watches too, is readable.

    A socket is watched for one report of room (EPOLLONESHOT), so that one thread at a time has it;
    one without room is watched again, and holds nobody up. The number of a socket that got all or
    failed goes to ``done``.
    """
    rows = no_numbers()
    acquire_numbers(table, rows)
    rows_ = rows.buf
    with cython.nogil:
        _serve(epoll, stop, done, rows_)
    release_numbers(rows)


def _serve(epoll: int, stop: int, done: int, rows: memoryview) -> None:
    while True:
        socket = wait_for_room(epoll)
        if socket < 0 or socket == stop:
            return
        error = _send(socket, rows, socket * WIDTH)
        if error in {EAGAIN, EINTR}:
            watch_again(epoll, socket)
        else:
            rows[socket * WIDTH + ERROR] = error
            report(done, socket)


def _send(socket: int, rows: memoryview, row: int) -> int:
    """Return 0 if everything has left, or an error number; EAGAIN: the socket is full."""
    while rows[row + LEFT]:
        asked = rows[row + LEFT]
        sent = send_file(socket, rows[row + FILE], rows[row + POSITION], asked)
        if sent <= 0:
            return -sent if sent else EIO  # the file ends before the range does
        rows[row + POSITION] += sent
        rows[row + LEFT] -= sent
        if sent < asked:
            return EAGAIN
    while rows[row + TAIL_SIZE]:
        sent = send_octets(socket, rows[row + TAIL], rows[row + TAIL_SIZE])
        if sent < 0:
            return -sent
        rows[row + TAIL_SIZE] -= sent
    return 0
