"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), versions 1-3.

v1 prefixed patterns (KIP-290) · v2 compact encoding · v3 user resources (KIP-373). Without an
authorizer, and this broker has none, Apache Kafka answers SECURITY_DISABLED to all of them, once
for each creation and filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode

from protocol.errors import ProtocolError
from protocol.messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    from broker.context import RequestContext

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
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


def create(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Make none."""
    del context
    for each in request.creations:
        _check(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    refused = AclCreationResult(**_REFUSAL)
    return CreateAclsResponse(
        throttle_time=NO_THROTTLE, results=(refused,) * len(request.creations)
    )


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
    refused = DeleteAclsFilterResult(**_REFUSAL, matching_acls=())
    return DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(refused,) * len(request.filters)
    )


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
