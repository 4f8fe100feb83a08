"""The seam of the network, where no other test passes it."""

import errno
import socket
from collections.abc import Iterator

import pytest

from siltstone.broker.net.turn.turn import Transport
from siltstone.broker.process import sockets
from siltstone.broker.process._sockets import route


class Wire:
    """Stands in for the network of compiled code: what comes, and what went."""

    def __init__(self) -> None:
        self.coming = [b"first", b""]
        self.gone: list[tuple[int, bytes]] = []
        self.error: int | None = None

    def receive_into(self, fileno: int, memory: memoryview) -> int:
        """Give the next bytes."""
        if self.error is not None:
            raise OSError(self.error, "no")
        octets = self.coming.pop(0)
        memory[: len(octets)] = octets
        return len(octets)

    def send(self, fileno: int, memory: memoryview, flags: int) -> int:
        """Take at most five bytes."""
        if self.error is not None:
            raise OSError(self.error, "no")
        self.gone.append((fileno, bytes(memory[:5])))
        return min(len(memory), 5)


@pytest.fixture
def wire() -> Iterator[Wire]:
    """Lead compiled code through an object."""
    wire = Wire()
    route.through = wire
    yield wire
    route.through = None


def test_compiled_code_receives_and_sends_through_an_object(wire: Wire) -> None:
    """A number that the kernel does not know is served, its bytes and its errors are obeyed."""
    lost: list[str | Exception] = []
    transport = Transport(1 << 20, lost.append)
    memory = memoryview(bytearray(16))

    assert transport.receive(memory, 0, 16) == 5
    assert bytes(memory[:5]) == b"first"
    assert transport.receive(memory, 0, 16) == 0
    wire.error = errno.EAGAIN
    assert transport.receive(memory, 0, 16) == -1
    wire.error = None
    transport.send_bytes(b"short")
    assert wire.gone == [(1 << 20, b"short")]
    wire.error = errno.EPIPE
    transport.send_bytes(b"more")
    assert lost == ["Broken pipe"]


def test_an_accepted_socket_waits_for_nothing() -> None:
    """As a number and as an object, whose own timeout OpenSSL obeys."""
    (family, address), *_ = sockets.find_addresses("127.0.0.1", 0)
    with (
        sockets.listen(family, address, 1) as listening,
        socket.create_connection(listening.getsockname()) as client,
        sockets.own(sockets.accept(listening)[0]) as sock,
    ):
        assert sock.gettimeout() == 0
        with pytest.raises(BlockingIOError):
            sockets.peek(sock, 1)
        assert sockets.find_name(sock.fileno()) == listening.getsockname()
        assert client.getpeername() == listening.getsockname()
