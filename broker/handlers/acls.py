"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), versions 1-3.

v1 prefixed patterns (KIP-290) · v2 compact encoding · v3 user resources (KIP-373). Without an
authorizer, and this broker has none, Apache Kafka answers SECURITY_DISABLED to all of them, once
for each creation and filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.errors import ErrorCode, ProtocolError
from siltstone.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from siltstone.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from siltstone.protocol.messages.describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.create_acls import CreateAclsRequest
    from siltstone.protocol.messages.delete_acls import DeleteAclsRequest
    from siltstone.protocol.messages.describe_acls import DescribeAclsRequest

_UNKNOWN: Final = 0  # of each kind of element


def describe(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Tell that there is no authorizer."""
    del context
    _check(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
    )


def create(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Make none."""
    del context
    for each in request.creations:
        _check(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    refused = AclCreationResult(**_REFUSAL)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


def delete(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Find none to delete."""
    del context
    for each in request.filters:
        _check(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
    refused = DeleteAclsFilterResult(**_REFUSAL)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


_REFUSAL: Final[dict[str, Any]] = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}


def _check(*elements: int) -> None:
    """Refuse what no client sends; Apache Kafka closes the connection, too.

    Raises:
        ProtocolError: An element is said to be unknown.
    """
    if _UNKNOWN in elements:
        raise ProtocolError("a request of ACLs has unknown elements")
