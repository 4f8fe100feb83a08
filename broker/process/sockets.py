"""All network calls of the daemon in one place: to listen, accept, receive and send.

No other module of the daemon makes network calls. Other modules look these functions up at each
call (`sockets.accept(...)`) and keep no reference to them, so that a simulator can replace them by
its own before it creates a broker. Compiled code receives and sends through
`siltstone.broker.process._sockets`, whose ``route`` can be replaced. The event loop, which the
composition root creates, reports when a socket can be read or written and when a time-out ends.
Encrypted sockets (`siltstone.broker.net.tls.sockets`) work in OpenSSL and use only `wrap` of this
module. Sender threads wait in the kernel; with ``num.network.threads=0`` the loop sends by itself.

A socket is a Python object, or a number where no object is needed. No call waits: a call that would
have to wait raises BlockingIOError. Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from siltstone.broker.process._sockets import FIONREAD

if TYPE_CHECKING:
    from http.client import HTTPSConnection

    Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
    Address: TypeAlias = tuple[Any, ...]

_INT: Final = Struct("i")
_ONCE: Final = select.EPOLLOUT | select.EPOLLONESHOT


def find_addresses(host: str, port: int) -> list[tuple[int, Address]]:
    """Return family and address of each socket to bind for a host; an empty host means all.

    The call may use the resolver, and then it blocks.

    Raises:
        OSError: The resolver finds no address (`socket.gaierror`).
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(each[0]), each[4]) for each in found))


async def look_up(host: str, port: int) -> list[Address]:
    """Return the addresses to which a client of a host would connect.

    Raises:
        OSError: The resolver finds no address.
        UnicodeError: The host is not a valid name.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return [each[4] for each in found]


def listen(
    family: int, address: Address, backlog: int, options: Iterable[tuple[int, int, int]] = ()
) -> socket.socket:
    """Return a socket that listens, with options (level, name, value) that its clients inherit.

    Raises:
        OSError: The address is taken or is not this machine's.
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        for option in options:
            sock.setsockopt(*option)
        sock.bind(address)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def accept(listening: socket.socket) -> tuple[int, Address]:
    """Return the number of the next client's socket, which does not block, and its address.

    Raises:
        BlockingIOError: No client waits; likewise InterruptedError, ConnectionAbortedError.
        OSError: For example, no descriptor is left.
    """
    # Like accept(), but without a Python socket: to create one costs more than the call.
    fileno, address = listening._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    os.set_blocking(fileno, False)
    return fileno, address


def own(fileno: int) -> socket.socket:
    """Return a non-blocking socket object for a number; from now on the object closes it."""
    sock = socket.socket(fileno=fileno)
    sock.setblocking(False)
    return sock


def close(fileno: int) -> None:
    """Close the socket, or the end of a pipe, with a number."""
    socket.close(fileno)


def find_name(fileno: int) -> Address:
    """Return the local address that the client of a socket has connected to."""
    sock = socket.socket(fileno=fileno)
    try:
        name: Address = sock.getsockname()
        return name
    finally:
        sock.detach()


def peek(sock: socket.socket, size: int) -> bytes:
    """Return at most ``size`` received bytes and leave them in the socket; no bytes mean the end.

    The method of a TLS socket accepts no flags, so this calls the method of a plain socket.

    Raises:
        OSError: No bytes have come (BlockingIOError, InterruptedError), or the peer is gone.
    """
    return socket.socket.recv(sock, size, socket.MSG_PEEK)


def receive(sock: socket.socket, size: int) -> bytes:
    """Return at most ``size`` received bytes, below TLS; see `peek`."""
    return socket.socket.recv(sock, size)


def count_arrived(sock: socket.socket) -> int:
    """Return how many bytes have come that are not received yet."""
    count: int = _INT.unpack(fcntl.ioctl(sock.fileno(), FIONREAD, bytes(4)))[0]
    return count


def shut(sock: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """Shut a connection down, or only its side to the client (`socket.SHUT_WR`), below TLS.

    Raises:
        OSError: The peer is gone.
    """
    socket.socket.shutdown(sock, how)


def find_broken(filenos: Iterable[int]) -> list[int]:
    """Return the sockets that were reset or have no peer: nothing can be sent on them."""
    errors = select.poll()
    for fileno in filenos:
        errors.register(fileno, 0)
    return [fileno for fileno, _ in errors.poll(0)]


def send_file(fileno: int, file: int, position: int, size: int) -> int:
    """Send a range of a file; return how much the socket took, 0 at the end of the file.

    Raises:
        OSError: The socket is full (BlockingIOError, InterruptedError), or the peer is gone.
    """
    return os.sendfile(fileno, file, position, size)


def wrap(context: ssl.SSLContext, sock: socket.socket) -> ssl.SSLSocket:
    """Return an accepted socket as one that encrypts, before its handshake.

    Raises:
        OSError: The peer is gone.
    """
    return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


async def serve(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None],
    host: str,
    port: int,
    read_bytes: int,
) -> asyncio.Server:
    """Listen and call ``connected`` for each client; ``read_bytes`` limits the bytes read ahead.

    Raises:
        OSError: The address is taken, or is not this machine's.
    """
    return await asyncio.start_server(connected, host or None, port, limit=read_bytes)


async def connect(host: str, port: int) -> Stream:
    """Return a connection to a server.

    Raises:
        OSError: The server cannot be reached.
    """
    return await asyncio.open_connection(host, port)


async def pair() -> tuple[int, Stream]:
    """Return the ends of a connection within the process: one as a number, one as a stream."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        stream = await asyncio.open_unix_connection(sock=theirs)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return ours.detach(), stream


def ask_https(
    host: str, port: int | None, seconds: float, context: ssl.SSLContext
) -> HTTPSConnection:
    """Return a connection to an HTTPS server; its ``connect`` opens it. Its calls block.

    Each call raises OSError or HTTPException if the server fails or is too slow (``seconds``).
    """
    from http.client import HTTPSConnection  # noqa: PLC0415  # 5 ms, for one kind of login

    return HTTPSConnection(host, port, timeout=seconds, context=context)


def tell(address: str, message: bytes) -> None:
    """Send a datagram to a socket that has a name in a file system.

    Raises:
        OSError: The socket is gone.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        sock.sendall(message)


class Watch:
    """Sockets that threads wait for: a socket with room is reported once, to one thread.

    The wait is in the kernel, so with a simulator the loop sends instead.
    """

    def __init__(self) -> None:
        with ExitStack() as undo:
            self._epoll = select.epoll()
            undo.callback(self._epoll.close)
            self.stop: Final = os.eventfd(0, os.EFD_CLOEXEC)
            undo.callback(close, self.stop)
            self._epoll.register(self.stop, select.EPOLLIN)
            undo.pop_all()

    def fileno(self) -> int:
        """Return the number of the epoll set, for compiled code that waits on it."""
        return self._epoll.fileno()

    def add(self, fileno: int) -> None:
        """Watch a socket: it is reported once, as soon as it has room.

        Raises:
            OSError: The system watches no more sockets.
        """
        try:
            self._epoll.modify(fileno, _ONCE)
        except FileNotFoundError:
            self._epoll.register(fileno, _ONCE)

    def wait(self) -> int | None:
        """Return the number of a socket that has room, None at the end."""
        while not (found := self._epoll.poll(maxevents=1)):
            continue
        fileno, _ = found[0]
        return None if fileno == self.stop else fileno

    def end(self) -> None:
        """Make all waiting threads return."""
        os.eventfd_write(self.stop, 1)

    def close(self) -> None:
        """Close the descriptors; no thread may wait any more."""
        self._epoll.close()
        close(self.stop)


class Pipe:
    """Bytes from threads to the loop: a write waits while the pipe is full, a read never waits.

    ``wanted`` is how many bytes the pipe should hold; ``size`` is how many it can hold.
    """

    def __init__(self, wanted: int) -> None:
        self.output, self.input = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.output, False)
        try:
            self.size: int = fcntl.fcntl(self.input, fcntl.F_SETPIPE_SZ, wanted)
        except OSError:  # more than it may have, or than the system has now
            self.size = fcntl.fcntl(self.input, fcntl.F_GETPIPE_SZ)

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes.

        Raises:
            BlockingIOError: The pipe is empty.
        """
        return os.read(self.output, size)

    def close(self) -> None:
        """Close both ends."""
        close(self.output)
        close(self.input)
