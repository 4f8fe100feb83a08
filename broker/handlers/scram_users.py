"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), version 0 (KIP-554).

Differs from Kafka: there are no SCRAM users yet. Nobody has credentials, and making them is refused
with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from protocol.errors import UnsupportedVersion
from protocol.messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
    )
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest,
    )

    from broker.context import RequestContext

_REFUSAL: Final = "this broker has no SCRAM users yet; nothing is stored"
_NOT_DELETED: Final = "Attempt to delete a user credential that does not exist"


def describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Tell of each user that is named that it has no credentials; nobody else has any."""
    del context
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(
            _describe(name, count)
            for name, count in Counter(each.name for each in request.users or ()).items()
        ),
    )


def _describe(name: str, count: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.resource_not_found
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if count > 1:
        code = ErrorCode.duplicate_resource
        message = (
            "Cannot describe SCRAM credentials for the same user twice in a single request: " + name
        )
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=message, credential_infos=()
    )


def alter(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Refuse to make credentials; those to be deleted are not there."""
    del context
    results = {
        each.name: AlterUserScramCredentialsResult(
            user=each.name, error_code=UnsupportedVersion.code, error_message=_REFUSAL
        )
        for each in request.upsertions
    }
    for each in request.deletions:
        results[each.name] = AlterUserScramCredentialsResult(
            user=each.name, error_code=ErrorCode.resource_not_found, error_message=_NOT_DELETED
        )
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, results=tuple(results.values())
    )
