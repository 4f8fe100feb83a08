"""Limits for the number and the rate of connections, of single addresses or of one listener.

``max.connections.per.ip.overrides`` is for addresses; ``listener.name.NAME.max.connections`` and
``listener.name.NAME.max.connection.creation.rate`` are for one listener (KIP-402, KIP-612).
"""

from collections.abc import Mapping
from ipaddress import ip_address

from siltstone.config.keys import Check, Kind, at_least

MAX_CONNECTIONS = "max.connections"
CREATION_RATE = "max.connection.creation.rate"
OF_LISTENER: dict[str, tuple[Kind, Check | None]] = {
    MAX_CONNECTIONS: (Kind.INT, at_least(1)),
    CREATION_RATE: (Kind.INT, at_least(1)),
}
"""Limits of one listener; unlike its other settings it may change while it is open."""


def limit_of(given: Mapping[str, str], listener: str, setting: str) -> int | None:
    """Return a limit of one listener; ``given`` has the settings of single listeners as text."""
    text = given.get(f"listener.name.{listener.lower()}.{setting}")
    return None if text is None else int(text)


def parse_overrides(text: str) -> dict[str, int]:
    """Return the limits of ``192.0.2.1:100,2001:db8::1:200`` by address.

    Raises:
        ValueError: The text is no list of addresses and numbers.
    """
    limits = {}
    for each in filter(None, map(str.strip, text.split(","))):
        address, _, count = each.rpartition(":")
        limits[str(ip_address(address.strip()))] = limit = int(count)
        if limit < 0:
            raise ValueError(f"{limit} connections cannot be")
    return limits


def are_overrides(text: str) -> bool:
    """Tell whether `parse_overrides` accepts a text."""
    try:
        parse_overrides(text)
    except ValueError:
        return False
    return True
