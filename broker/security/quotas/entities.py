"""Whom a quota is for and what it limits, judged as Apache Kafka does (ClientQuotaControlManager).

An entity is made of a user, a client id, both, or an address. A name of None is the default: it
stands for every name without a quota of its own.
"""

from __future__ import annotations

import math
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeAlias

from siltstone.protocol.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER: Final = "producer_byte_rate"
CONSUMER: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
QUOTAS: Final = (CONNECTION, REQUEST, PRODUCER, CONSUMER, MUTATION)
"""In the order in which Kafka tells those of an entity, whichever was set first."""

_OF_CLIENTS: Final = frozenset({PRODUCER, CONSUMER, REQUEST, MUTATION})
_OF_ADDRESSES: Final = frozenset({CONNECTION})
_LARGEST: Final = {
    PRODUCER: ((1 << 63) - 1, "a LONG"),
    CONSUMER: ((1 << 63) - 1, "a LONG"),
    CONNECTION: ((1 << 31) - 1, "an INT"),
}
_LEAST_FRACTION: Final = 1e-6

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of a type and a name, in the order of `TYPES`."""


def make_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity that these types and names make.

    Raises:
        InvalidRequest: They make none.
    """
    names: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if kind in names:
            raise InvalidRequest(f"Client quota entity type {kind} is there twice")
        if name is not None and not name:
            raise InvalidRequest(f"Empty {kind} not supported")
        names[kind] = name
    if not names or (IP in names and len(names) > 1):
        raise InvalidRequest("Invalid empty client quota entity")
    if names.get(IP) is not None:
        _check_address(str(names[IP]))
    return tuple((kind, names[kind]) for kind in TYPES if kind in names)


def check_quota(entity: Entity, key: str, value: float) -> None:
    """Refuse a quota that cannot be set.

    Raises:
        InvalidRequest: It is none of this entity, or its value makes no sense.
    """
    if key not in (_OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS):
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if key not in _LARGEST:
        if math.isinf(value):
            raise InvalidRequest(f"Quota {key} must be a number; remove it to have no limit")
        return
    largest, kind = _LARGEST[key]
    if value > largest:
        raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
    if value % 1.0 > _LEAST_FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _check_address(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        raise InvalidRequest(
            f"{text} is not a valid IP; names are not resolved here, so give an address"
        ) from None
