"""Requests that make, describe and delete rules."""

from typing import Any

from tests.support.kio_schemas import request_class


def allow(operation: int, kind: int, name: str, permission: int = 3) -> Any:
    """Return a CreateAcls for bob."""
    row = request_class(30, 3, "AclCreation")(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=3,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=permission,
    )
    return request_class(30, 3)(creations=(row,))


def every(key: int) -> Any:
    """Return a DescribeAcls or a DeleteAcls of everything."""
    words = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    if key == 29:
        return request_class(29, 3)(**words)
    return request_class(31, 3)(filters=(request_class(31, 3, "DeleteAclsFilter")(**words),))
