"""The quotas in force, and the choice of a client's quota: the most specific one (KIP-55).

The entity that has a quota is a user, a client id, both, or an address. A name of None is the
default: it stands for every name without a quota of its own. The checks of a new quota are those of
Apache Kafka (ClientQuotaControlManager).

There are eight levels, and the first one with a quota for the key counts: a user with a client id,
a user with the default client id, the user; the same three for the default user; the client id, the
default client id. Connections share a quota if they have the same names on its level: a user's
quota is shared by all connections of the user, and under a quota of the default user each user has
that quota separately.
"""

import math
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, Literal, NamedTuple, TypeAlias

from siltstone.protocol.errors import InvalidRequest

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
    """Return the entity of these types and names.

    Raises:
        InvalidRequest: There is no such entity.
    """
    names: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if kind in names:
            raise InvalidRequest(f"Client quota entity type {kind} is named twice")
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
        InvalidRequest: The entity cannot have this quota, or the value makes no sense.
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


Values: TypeAlias = "dict[Entity, dict[str, float]]"
"""Quotas by entity and key; an entity without any is left out."""

Part: TypeAlias = str | Literal[False] | None
ABSENT: Final = False
"""Instead of a user or a client id: the quota does not ask for it."""


class Share(NamedTuple):
    """A quota, and the names that share it; a name that is not part of the level is empty."""

    user: str
    client_id: str
    limit: float


class Quotas:
    """The quotas in force (loop only). Each change changes ``version``."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.version = 0
        self._clients: dict[str, dict[tuple[Part, Part], float]] = {}
        self._addresses: dict[str | None, float] = {}

    @property
    def keys(self) -> frozenset[str]:
        """Return the kinds of quotas that are set."""
        found = set(self._clients)
        if self._addresses:
            found.add(CONNECTION)
        return frozenset(found)

    def replace(self, values: Values) -> None:
        """Put other quotas in force."""
        clients: dict[str, dict[tuple[Part, Part], float]] = {}
        addresses: dict[str | None, float] = {}
        for entity, own in values.items():
            names: Mapping[str, Part] = dict(entity)
            for key, value in own.items():
                if key == CONNECTION:
                    name = names[IP]
                    addresses[str(ip_address(name)) if name else None] = value
                    continue
                place: tuple[Part, Part] = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
                clients.setdefault(key, {})[place] = value
        self.values = values
        self._clients = clients
        self._addresses = addresses
        self.version += 1

    def find(self, key: str, user: str, client_id: str) -> Share | None:
        """Return the quota of a client, or None if the client has no limit.

        An empty client id has no quota of client ids.
        """
        places = self._clients.get(key)
        if places is None:
            return None
        levels: tuple[tuple[tuple[Part, Part], str, str], ...] = (
            ((user, client_id), user, client_id),
            ((user, None), user, client_id),
            ((user, ABSENT), user, ""),
            ((None, client_id), user, client_id),
            ((None, None), user, client_id),
            ((None, ABSENT), user, ""),
            ((ABSENT, client_id), "", client_id),
            ((ABSENT, None), "", client_id),
        )
        for place, shared_user, shared_client in levels:
            limit = places.get(place)
            if limit is not None and (client_id or place[1] is ABSENT):
                return Share(shared_user, shared_client, limit)
        return None

    def find_connection_rate(self, host: str) -> float | None:
        """Return how many connections a second an address may open; None if there is no limit."""
        limit = self._addresses.get(host)
        return self._addresses.get(None) if limit is None else limit
