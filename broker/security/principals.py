"""Principals: clients as the broker names them, such as ``User:alice`` (Kafka: KafkaPrincipal)."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type and a name. Kafka itself has only the type ``User``."""

    type: str
    name: str

    def __str__(self) -> str:
        """Return the text of the principal as in ACLs and ``super.users``."""
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client that did not have to give a name."""

OURSELVES: Final = Principal("Broker", "itself")
"""The broker's own connection to itself, by which it tries whether it can write and read."""

EVERYBODY: Final = Principal(USER, "*")
"""In a rule: every client, whatever its type (Kafka: WILDCARD_KAFKA_PRINCIPAL)."""


def parse_principal(text: str) -> Principal:
    """Return the principal of a text like ``User:alice``; the name may contain colons.

    Raises:
        ValueError: there is no colon, or nothing before it (Kafka: SecurityUtils).
    """
    kind, colon, name = text.partition(":")
    if not colon or not kind:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[Principal]:
    """Return the principals of ``super.users``, which are separated by semicolons.

    Raises:
        ValueError: one of them is not Type:name.
    """
    return frozenset(parse_principal(each.strip()) for each in text.split(";") if each.strip())
