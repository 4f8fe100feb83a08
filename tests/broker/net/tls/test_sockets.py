"""Sockets that encrypt beside each other on one thread: a failure of one is not the other's."""

import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

import pytest

from siltstone.broker.net.tls.contexts import make_endpoint
from siltstone.broker.net.tls.sockets import forget_errors
from siltstone.config.load import load
from tests.support.authority import Authority, Pair
from tests.support.tls_clients import trusting

_MANY = b"x" * 65536
_RESET = struct.pack("ii", 1, 0)
_SECONDS = 10
_GONE = (ConnectionError, ssl.SSLEOFError)


class Peers(NamedTuple):
    """The broker's end of a connection and its client's, after the handshake."""

    ours: ssl.SSLSocket
    theirs: ssl.SSLSocket

    def fill(self) -> None:
        """Send until no more goes."""
        with suppress(ssl.SSLWantWriteError):
            while True:
                self.ours.send(_MANY)

    def leave(self) -> None:
        """Have the client go in the middle of what it is sent."""
        self.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        socket.socket(fileno=self.theirs.detach()).close()
        self.wait_for_end()

    def wait_for_end(self) -> None:
        """Wait until the end of the client's side has come."""
        ends = select.poll()
        ends.register(self.ours, select.POLLIN)
        assert ends.poll(_SECONDS * 1000)


class Beside:
    """Makes connections of one thread."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self._server = server
        self._client = client
        self.opened = ExitStack()

    def connect(self) -> Peers:
        """Return a connection whose handshake is done, and whose tickets are taken."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            sock, _ = listening.accept()
        for each in (client, sock):
            each.setblocking(False)
        pair = Peers(
            self._server.wrap_socket(sock, server_side=True, do_handshake_on_connect=False),
            self._client.wrap_socket(
                client, server_hostname="localhost", do_handshake_on_connect=False
            ),
        )
        undone = set(pair)
        while undone:
            for each in list(undone):
                with suppress(ssl.SSLWantReadError):
                    each.do_handshake()
                    undone.remove(each)
        with suppress(ssl.SSLWantReadError):
            pair.theirs.recv(1)
        for each in pair:
            self.opened.enter_context(each)
        return pair


@pytest.fixture
def beside(server: Pair, authority: Authority) -> Iterator[Beside]:
    """A listener's context, and a client's."""
    sets = ["listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={server.store}"]
    endpoint = make_endpoint(load(None, {}, sets).server().tls_listeners()["SSL"])
    made = Beside(endpoint.context, trusting(authority))
    with made.opened:
        yield made
    forget_errors()


def send(peers: Peers) -> None:
    """Fail to send."""
    peers.fill()
    peers.leave()
    with pytest.raises(_GONE):
        peers.ours.send(_MANY)


def send_again(peers: Peers) -> None:
    """Fail to send after that has failed."""
    send(peers)
    with pytest.raises(_GONE):
        peers.ours.send(_MANY)


def send_when_shut(peers: Peers) -> None:
    """Fail to send through a socket that was shut down, as one of a sender's is."""
    socket.socket.shutdown(peers.ours, socket.SHUT_RDWR)
    with pytest.raises(_GONE):
        peers.ours.send(_MANY)


def receive(peers: Peers) -> None:
    """Fail to receive, since the client has gone without a word and cannot be told so."""
    socket.socket.shutdown(peers.theirs, socket.SHUT_WR)
    peers.wait_for_end()
    socket.socket.shutdown(peers.ours, socket.SHUT_WR)
    with suppress(OSError):
        peers.ours.recv_into(bytearray(10))


def end(peers: Peers) -> None:
    """Fail to tell the client that the connection ends."""
    peers.leave()
    with suppress(OSError):
        peers.ours.unwrap()


@pytest.mark.parametrize("fail", [send, send_again, send_when_shut, receive, end])
def test_a_failure_stays_with_its_connection(beside: Beside, fail: object) -> None:
    """The others of the thread wait for their peers as before, and lose nothing."""
    broken, reader, writer, ending = (beside.connect() for _ in range(4))
    assert callable(fail)

    fail(broken)

    with pytest.raises(ssl.SSLWantReadError):
        reader.ours.recv(1)
    writer.fill()
    with pytest.raises(ssl.SSLWantReadError):
        ending.ours.unwrap()
    assert reader.ours.send(b"whole") == len(b"whole")
    reader.theirs.settimeout(_SECONDS)
    assert reader.theirs.recv(10) == b"whole"
