"""ACLs as values: a rule, the pattern for the resources of a rule, and filters for rules.

Codes are those of Kafka's protocol (classes ResourceType, PatternType, AclOperation and
AclPermissionType). Only filters have UNKNOWN and ANY, never a rule.
"""

import re
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

WILDCARD: Final = "*"
"""The name in a literal pattern for every resource, and the host in a rule for every host."""

Network: TypeAlias = tuple[int, int, int]
"""The size of its addresses in bits, how many of the bits count, and the number that these are."""

_OF_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_OF_IPV6 = re.compile(r"(\[)?([^/]+)(?(1)\])/([+-]?\d+)")
_MAPPED: Final = 0xFFFF
"""The first 96 bits of an IPv4 address that is written as IPv6."""


class _Code(IntEnum):
    """A code of the protocol, hashed like its number, since rules are looked up by codes."""

    __hash__ = int.__hash__


class ResourceType(_Code):
    """The kind of resource that a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name in a rule, or in a filter, is compared with the name of a resource."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """The action that a rule permits or forbids."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether a rule forbids or permits."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources that a rule is for."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    def matches(self, resource_type: int, name: str) -> bool:
        """Return whether the resource is one of the pattern's resources."""
        if self.resource_type != resource_type:
            return False
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, WILDCARD}


class Acl(NamedTuple):
    """One rule: it permits or forbids a principal, from a host, an operation on some resources."""

    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """A filter of rules: a field of None or ANY matches every rule (Kafka: AclBindingFilter)."""

    resource_type: ResourceType = ResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether a rule passes the filter."""
        return (
            self.resource_type in {ResourceType.ANY, acl.pattern.resource_type}
            and self._matches_pattern(acl.pattern)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )

    def _matches_pattern(self, pattern: Pattern) -> bool:
        """Tell whether a pattern is asked for; MATCH asks for all that match the filter's name."""
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, pattern.pattern_type}:
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        return pattern.matches(pattern.resource_type, self.name)


def check_acl(acl: Acl) -> None:
    """Refuse a rule that cannot be kept (Kafka: AclControlManager.validateNewAcl).

    Raises:
        ValueError: a part is UNKNOWN, ANY or MATCH, a name is empty, or the principal has no type.
    """
    pattern = acl.pattern
    if pattern.resource_type in {ResourceType.UNKNOWN, ResourceType.ANY}:
        raise ValueError(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise ValueError(f"Invalid patternType {pattern.pattern_type.name}")
    if acl.operation in {Operation.UNKNOWN, Operation.ANY}:
        raise ValueError(f"Invalid operation {acl.operation.name}")
    if acl.permission not in {Permission.DENY, Permission.ALLOW}:
        raise ValueError(f"Invalid permissionType {acl.permission.name}")
    if not pattern.name:
        raise ValueError("Resource name should not be empty")
    if ":" not in acl.principal:
        raise ValueError(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )


def find_host_fault(host: str) -> str | None:
    """Return why no rule may be created for a host (Kafka: validateHostPattern); None if one may.

    A text without a slash may be any: it is compared with the client's address as a whole.
    """
    if not host:
        return "Host pattern cannot be null or empty"
    if "/" in host and read_network(host) is None:
        return (
            f"Invalid CIDR notation '{host}': write an address, a slash and how many of its bits "
            "count, such as 10.0.0.0/8 or 2001:db8::/32"
        )
    return None


def read_network(host: str) -> Network | None:
    """Return a rule's host as a network; None if it is not one (Kafka: CidrUtils, KIP-1276).

    Bits of the address that do not count may be set. IPv4 addresses written as IPv6, such as
    ``::ffff:10.0.0.0/104``, are refused: no client has such an address.
    """
    from ipaddress import IPv4Address, IPv6Address  # noqa: PLC0415  # few rules have networks

    try:
        if parts := _OF_IPV4.fullmatch(host):
            *numbers, length = map(int, parts.groups())
            size, number = 32, int(IPv4Address(bytes(numbers)))
        elif parts := _OF_IPV6.fullmatch(host):
            size, length, number = 128, int(parts[3]), int(IPv6Address(parts[2]))
        else:
            return None
    except ValueError:
        return None
    if not 0 <= length <= size or number >> 32 == _MAPPED:
        return None
    return find_network(size, length, number)


def find_network(size: int, length: int, number: int) -> Network:
    """Return the network in which an address of ``size`` bits is, by the length of the network."""
    return size, length, number >> (size - length)
