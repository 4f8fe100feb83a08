"""AlterUserScramCredentials (51). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message, Octets

class ScramCredentialDeletion(NamedTuple):
    name: Annotated[str, "string"] = ""
    mechanism: Annotated[int, "int8"] = 0

class ScramCredentialUpsertion(NamedTuple):
    name: Annotated[str, "string"] = ""
    mechanism: Annotated[int, "int8"] = 0
    iterations: Annotated[int, "int32"] = 0
    salt: Annotated[Octets, "octets"] = b""
    salted_password: Annotated[Octets, "octets"] = b""

class AlterUserScramCredentialsRequest(NamedTuple):
    deletions: Annotated[Sequence[ScramCredentialDeletion], "[]struct"] = ()
    upsertions: Annotated[Sequence[ScramCredentialUpsertion], "[]struct"] = ()
REQUEST = Message(51, 0, 0, 0, AlterUserScramCredentialsRequest)

class AlterUserScramCredentialsResult(NamedTuple):
    user: Annotated[str, "string"] = ""
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""

class AlterUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[AlterUserScramCredentialsResult], "[]struct"] = ()
RESPONSE = Message(51, 0, 0, 0, AlterUserScramCredentialsResponse)
