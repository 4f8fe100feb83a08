"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), versions 1-3 (KIP-140, KIP-290).

v2 compact encoding · v3 users as resources. The host of a rule may be a network (KIP-1276). Without
an authorizer the answer is SECURITY_DISABLED, as in Apache Kafka. When a change is answered, it is
on the disk and in force for the next request of every client.
"""

from collections.abc import Coroutine
from typing import Any, Final

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.security.acl import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    find_host_fault,
)
from siltstone.broker.security.acl_store import AclWriter
from siltstone.broker.security.rights import ALTER, CLUSTER, DESCRIBE
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode, KafkaError, ProtocolError
from siltstone.protocol.messages import delete_acls
from siltstone.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from siltstone.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from siltstone.protocol.names import CLUSTER_NAME

_REFUSAL: Final[dict[str, Any]] = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}


_UNKNOWN: Final = "The filter has elements that this broker does not know."
_KINDS, _PATTERNS, _OPERATIONS, _PERMISSIONS = (
    frozenset(map(int, each)) for each in (ResourceType, PatternType, Operation, Permission)
)


def describe(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the rules that match a filter, by resource."""
    if not context.may(DESCRIBE, CLUSTER):
        return DescribeAclsResponse(**CLUSTER_REFUSED)
    wanted = _filter(request)
    authorizer = context.services.security.authorizer
    if authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.security_disabled,
            error_message="No Authorizer is configured on the broker",
        )
    found: dict[Pattern, list[AclDescription]] = {}
    for acl in () if wanted is None else authorizer.find(wanted):
        described = AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        found.setdefault(acl.pattern, []).append(described)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(pattern.resource_type, pattern.name, pattern.pattern_type, acls)
            for pattern, acls in found.items()
        ],
    )


def create(
    context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | Coroutine[Any, Any, CreateAclsResponse]:
    """Create rules; to create one that exists changes nothing and is no error."""
    if not context.may(ALTER, CLUSTER):
        return CreateAclsResponse(
            results=(AclCreationResult(**CLUSTER_REFUSED),) * len(request.creations)
        )
    acls = [_acl(each) for each in request.creations]
    writer = context.services.security.acls
    if writer is None:
        return CreateAclsResponse(results=(AclCreationResult(**_REFUSAL),) * len(acls))
    return _create(writer, acls)


async def _create(writer: AclWriter, acls: list[Acl]) -> CreateAclsResponse:
    faults = [_find_fault(acl) for acl in acls]
    try:
        await writer.add(acl for acl, fault in zip(acls, faults, strict=True) if fault is None)
    except KafkaError as error:
        refused = AclCreationResult(error.code, error.message)
        return CreateAclsResponse(results=[refused] * len(acls))
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None)
            if fault is None
            else AclCreationResult(ErrorCode.invalid_request, fault)
            for fault in faults
        ]
    )


def _find_fault(acl: Acl) -> str | None:
    """Return why a rule cannot be created; None if it can.

    `check_acl` refuses what cannot be kept either; the rest is refused here alone, since a start
    must read back what earlier versions have created.
    """
    pattern = acl.pattern
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    try:
        check_acl(acl)
    except ValueError as error:
        return str(error)
    return find_host_fault(acl.host)


def delete(
    context: RequestContext, request: delete_acls.DeleteAclsRequest
) -> delete_acls.DeleteAclsResponse | Coroutine[Any, Any, delete_acls.DeleteAclsResponse]:
    """Remove the rules that match the filters, and return the removed rules."""
    if not context.may(ALTER, CLUSTER):
        refusal = delete_acls.DeleteAclsFilterResult(**CLUSTER_REFUSED)
        return delete_acls.DeleteAclsResponse(filter_results=(refusal,) * len(request.filters))
    filters = [_filter(each) for each in request.filters]
    writer = context.services.security.acls
    if writer is None:
        refused = delete_acls.DeleteAclsFilterResult(**_REFUSAL)
        return delete_acls.DeleteAclsResponse(filter_results=(refused,) * len(filters))
    return _delete(writer, filters)


async def _delete(
    writer: AclWriter, filters: list[AclFilter | None]
) -> delete_acls.DeleteAclsResponse:
    try:
        removed = iter(await writer.remove([each for each in filters if each is not None]))
    except KafkaError as error:
        refused = delete_acls.DeleteAclsFilterResult(error.code, error.message)
        return delete_acls.DeleteAclsResponse(filter_results=[refused] * len(filters))
    unknown = delete_acls.DeleteAclsFilterResult(ErrorCode.invalid_request, _UNKNOWN)
    return delete_acls.DeleteAclsResponse(
        filter_results=[
            unknown
            if each is None
            else delete_acls.DeleteAclsFilterResult(
                error_message=None, matching_acls=[_matching(acl) for acl in next(removed)]
            )
            for each in filters
        ]
    )


def _matching(acl: Acl) -> delete_acls.DeleteAclsMatchingAcl:
    kind, pattern, name = acl.pattern
    return delete_acls.DeleteAclsMatchingAcl(
        0, None, kind, name, pattern, acl.principal, acl.host, acl.operation, acl.permission
    )


def _acl(row: AclCreation) -> Acl:
    kind, pattern, operation, permission = _read(
        row.resource_type, row.resource_pattern_type, row.operation, row.permission_type
    )
    return Acl(
        Pattern(kind, pattern, row.resource_name), row.principal, row.host, operation, permission
    )


def _filter(row: DescribeAclsRequest | delete_acls.DeleteAclsFilter) -> AclFilter | None:
    """Return the filter of a row; None if an element has an unknown number."""
    elements = _read(
        row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type
    )
    if 0 in elements:
        return None
    kind, pattern, operation, permission = elements
    return AclFilter(
        kind,
        pattern,
        row.resource_name_filter,
        row.principal_filter,
        row.host_filter,
        operation,
        permission,
    )


def _read(
    kind: int, pattern: int, operation: int, permission: int
) -> tuple[ResourceType, PatternType, Operation, Permission]:
    """Return the elements by their numbers; a number without a meaning becomes UNKNOWN.

    Raises:
        ProtocolError: The request itself says UNKNOWN, as no client does: Apache Kafka closes the
            connection, too.
    """
    if 0 in {kind, pattern, operation, permission}:
        raise ProtocolError("a request of ACLs has unknown elements")
    return (
        ResourceType(kind) if kind in _KINDS else ResourceType.UNKNOWN,
        PatternType(pattern) if pattern in _PATTERNS else PatternType.UNKNOWN,
        Operation(operation) if operation in _OPERATIONS else Operation.UNKNOWN,
        Permission(permission) if permission in _PERMISSIONS else Permission.UNKNOWN,
    )
