"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), version 0 (KIP-554).

Differs from Kafka: there are no SCRAM users yet. Nobody has credentials, and making them is refused
with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from siltstone.protocol.errors import ErrorCode, UnsupportedVersion, shorten
from siltstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from siltstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )
    from siltstone.protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
    )

_REFUSAL: Final = "this broker has no SCRAM users yet; nothing is stored"
_NOT_DELETED: Final = "Attempt to delete a user credential that does not exist"


def describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer for each named user that it has no credentials; without names answer none."""
    del context
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            _describe(name, count)
            for name, count in Counter(each.name for each in request.users or ()).items()
        ],
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
        user=name, error_code=code, error_message=shorten(message)
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
    return AlterUserScramCredentialsResponse(results=list(results.values()))
