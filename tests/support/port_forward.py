"""A port that forwards to another one, as a container engine does."""

import socket
import threading
from contextlib import suppress


class PortForward:
    """Connections to ``port`` go to another port of this machine; `close` ends them all."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more, and close all connections."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._pairs:
            _end(each)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        """Connect; an engine has taken the client's connection though nobody listens yet."""
        self._pairs.append(client)
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            _end(client)
            return
        self._pairs.append(server)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(target)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
