"""Requests that make, describe and delete rules."""

from collections.abc import Sequence
from typing import Any

from tests.support.kio_messages import request


def allow(
    operation: int, kind: int, name: str, permission: int = 3, hosts: Sequence[str] = ("*",)
) -> Any:
    """Return a CreateAcls for bob, with a rule for each host."""
    row = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:bob",
        "operation": operation,
        "permission_type": permission,
    }
    return request(30, 3, creations=[row | {"host": host} for host in hosts])


def every(key: int) -> Any:
    """Return a DescribeAcls or a DeleteAcls of everything."""
    one = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    words = dict.fromkeys(one, 1)
    return request(29, 3, **words) if key == 29 else request(31, 3, filters=[words])
