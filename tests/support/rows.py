"""Sends requests given as dictionaries over a socket, and returns answers as dictionaries.

It uses the tables of `protocol.messages`, which other tests compare with kio.
"""

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, Self

from siltstone.broker.api import APIS, BY_KEY
from siltstone.protocol.messages import Description, describe
from tests.support.ports import address_of
from tests.support.waiting import PATIENCE

CLOSED: Final = "the connection was closed"
_BY_NAME: Final = {api.name: api for api in APIS}
_HEAD: Final = struct.Struct(">hhihB")


class Asker:
    """A connection to a broker, which is opened again after the broker has closed it.

    A user logs in by PLAIN, with the password "pw".
    """

    def __init__(self, bootstrap: str, user: str = "") -> None:
        self._address = address_of(bootstrap)
        self._user = user
        self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()

    def ask(self, name: str, version: int, values: Mapping[str, Any]) -> Any:
        """Return the answer as a dictionary, or `CLOSED`."""
        api = _BY_NAME[name]
        asked, _ = api.load_messages()
        return self.exchange(
            api.key, version, asked.write(version, make(describe(asked.struct, version), values))
        )

    def exchange(self, key: int, version: int, body: bytes | bytearray) -> Any:
        """Return the answer to a request that is already written, as `ask` does."""
        asked, answered = BY_KEY[key].load_messages()
        tags = b"\0" if asked.is_flexible(version) else b""
        request = _HEAD.pack(key, version, 1, 1, ord("r")) + tags + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        size = self._stream.read(4)
        if not size:
            self.close()
            self._connect()
            return CLOSED
        answer = self._stream.read(int.from_bytes(size, "big"))
        start = 5 if answered.has_tagged_head(version) else 4
        told, end = answered.read(version, answer, start, len(answer), len(answer))
        assert end == len(answer)
        return plain(told)

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, PATIENCE)
        self._stream = self._socket.makefile("rb")
        if self._user:
            self.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
            login = f"\0{self._user}\0pw".encode()
            assert not self.ask("SaslAuthenticate", 2, {"auth_bytes": login})["error_code"]


def make(description: Description, values: Mapping[str, Any]) -> Any:
    """Return a structure of a message; omitted fields have their defaults."""
    of, fields = description
    made = {}
    for name, field in zip(of._fields, fields, strict=True):  # type: ignore[attr-defined]
        if name in values:
            value = values[name]
            if field.child is not None and value is not None:
                rows = value if field.is_array else [value]
                found = [make(field.child, each) for each in rows]
                value = found if field.is_array else found[0]
            made[name] = value
    return of(**made)


def plain(value: Any) -> Any:
    """Return a message as dictionaries, lists and values."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, memoryview | bytes | bytearray):
        return bytes(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return [plain(each) for each in value]
