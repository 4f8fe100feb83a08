"""SaslHandshake (17). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class SaslHandshakeRequest(NamedTuple):
    mechanism: Annotated[str, "string"] = ""
REQUEST = Message(17, 0, 1, -1, SaslHandshakeRequest)

class SaslHandshakeResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    mechanisms: Annotated[Sequence[str], "[]string"] = ()
RESPONSE = Message(17, 0, 1, -1, SaslHandshakeResponse)
