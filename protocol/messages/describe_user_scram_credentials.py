"""DescribeUserScramCredentials (50). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class UserName(NamedTuple):
    name: Annotated[str, "string"] = ""

class DescribeUserScramCredentialsRequest(NamedTuple):
    users: Annotated[Sequence[UserName] | None, "[]struct null"] = ()
REQUEST = Message(50, 0, 0, 0, DescribeUserScramCredentialsRequest)

class CredentialInfo(NamedTuple):
    mechanism: Annotated[int, "int8"] = 0
    iterations: Annotated[int, "int32"] = 0

class DescribeUserScramCredentialsResult(NamedTuple):
    user: Annotated[str, "string"] = ""
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    credential_infos: Annotated[Sequence[CredentialInfo], "[]struct"] = ()

class DescribeUserScramCredentialsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    results: Annotated[Sequence[DescribeUserScramCredentialsResult], "[]struct"] = ()
RESPONSE = Message(50, 0, 0, 0, DescribeUserScramCredentialsResponse)
