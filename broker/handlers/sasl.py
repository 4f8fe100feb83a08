"""SaslHandshake (17), versions 0-1, and SaslAuthenticate (36), versions 0-2: nobody logs in here.

As on a listener without SASL of Apache Kafka: the answer is ILLEGAL_SASL_STATE, so that the client
tells its user at once. What it says of itself is not read, and reaches no log.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.errors import IllegalSaslState
from protocol.headers import is_flexible, response_head

if TYPE_CHECKING:
    from broker.connection import Connection

_HANDSHAKE, _AUTHENTICATE = 17, 36
_MESSAGE = IllegalSaslState().message.encode()
_NO_MECHANISMS = 0


def handshake(
    connection: Connection,
    version: int,
    correlation_id: int,
    _buffer: memoryview,
    _body: int,
    _end: int,
) -> bytes:
    """Answer that there is no mechanism."""
    body = struct.pack(">hi", IllegalSaslState.code, _NO_MECHANISMS)
    return _refuse(connection, _HANDSHAKE, version, correlation_id, body)


def authenticate(
    connection: Connection,
    version: int,
    correlation_id: int,
    _buffer: memoryview,
    _body: int,
    _end: int,
) -> bytes:
    """Answer that nothing has to be proven."""
    body = struct.pack(">h", IllegalSaslState.code)
    if is_flexible(_AUTHENTICATE, version):
        body += struct.pack(">B", len(_MESSAGE) + 1) + _MESSAGE
        body += struct.pack(">BqB", 1, 0, 0)  # no bytes, no lifetime, no tagged fields
    else:
        body += struct.pack(">h", len(_MESSAGE)) + _MESSAGE
        body += struct.pack(">i", 0) if version == 0 else struct.pack(">iq", 0, 0)
    return _refuse(connection, _AUTHENTICATE, version, correlation_id, body)


def _refuse(
    connection: Connection, key: int, version: int, correlation_id: int, body: bytes
) -> bytes:
    listener = connection.listener
    listener.dispatcher.stats.by_key[key].failed(IllegalSaslState.code)
    listener.note_login(connection)
    return response_head(key, version, correlation_id, len(body)) + body
