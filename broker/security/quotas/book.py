"""The quotas in force, and which of them is a client's: the most specific one (KIP-55).

Of the eight levels the first that has a quota of the key counts: a user with a client id, a user
with the default client id, the user; the same of the default user; the client id, the default
client id. Whoever shares the names that stand on that level shares the quota: of a user all its
connections, of a default user each user for itself.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from siltstone.broker.security.quotas.entities import CLIENT_ID, CONNECTION, IP, USER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.broker.security.quotas.entities import Entity

Values: TypeAlias = "dict[Entity, dict[str, float]]"
"""Quotas by entity and key; an entity without any is not there."""

Part: TypeAlias = str | Literal[False] | None
ABSENT: Final = False
"""Instead of a user or a client id: the quota does not ask for it."""


class Share(NamedTuple):
    """A quota, and the names of those who share it; a name that does not matter is empty."""

    user: str
    client_id: str
    limit: float


class Quotas:
    """What is in force (loop only). ``version`` is another after each change."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.version = 0
        self._clients: dict[str, dict[tuple[Part, Part], float]] = {}
        self._addresses: dict[str | None, float] = {}

    @property
    def keys(self) -> frozenset[str]:
        """Return which kinds of quotas there are."""
        found = set(self._clients)
        if self._addresses:
            found.add(CONNECTION)
        return frozenset(found)

    def replace(self, values: Values) -> None:
        """Have other quotas in force from now on."""
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
        """Return the quota of a client, None if it has no limit.

        An empty client id is none: no quota of client ids counts for it.
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
        """Return how many connections a second an address may open, None if there is no limit."""
        limit = self._addresses.get(host)
        return self._addresses.get(None) if limit is None else limit
