"""The resource types of the config APIs, to which settings belong, and their names."""

from enum import IntEnum

from siltstone.protocol.errors import InvalidRequest


class ResourceType(IntEnum):
    """Kafka's ConfigResource.Type by its code on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_TYPES = {each.value: each for each in ResourceType}

ALL_BROKERS = ""
"""The name under which dynamic settings of all brokers are kept."""


def check_type(code: int) -> ResourceType:
    """Return the type of that code.

    Raises:
        InvalidRequest: The type does not exist.
    """
    found = _TYPES.get(code)
    if found is None:
        raise InvalidRequest(f"resource type {code} is not known to this broker")
    return found


def check_broker(name: str, node_id: int) -> None:
    """Refuse the name of a broker that is not this one.

    Raises:
        InvalidRequest: The name is another number, or no number.
    """
    try:
        given = int(name)
    except ValueError:
        raise InvalidRequest(f"a broker is named by its number, not by {name!r}") from None
    if given != node_id:
        raise InvalidRequest(f"this is broker {node_id}, not {given}; ask that one")
