"""SaslAuthenticate (36). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message, Octets

class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Annotated[Octets, "octets"] = b""
REQUEST = Message(36, 0, 2, 2, SaslAuthenticateRequest)

class SaslAuthenticateResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    auth_bytes: Annotated[bytes, "bytes"] = b""
    session_lifetime_ms: Annotated[int, "int64 1+"] = 0
RESPONSE = Message(36, 0, 2, 2, SaslAuthenticateResponse)
