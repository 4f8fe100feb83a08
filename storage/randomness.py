"""Chance, in one place: what nobody may guess, and ids that are not given twice.

No other module asks the system for it. It is the generator of the operating system that answers,
for secrets and for ids.
"""

import os
from uuid import UUID

from siltstone.protocol.names import RESERVED_IDS, uuid_text

source = os.urandom
"""Returns as many bytes as it is asked for; all others here take theirs from it."""


def random_bytes(count: int) -> bytes:
    """Return bytes that nobody can guess."""
    return source(count)


def random_below(limit: int) -> int:
    """Return a whole number from 0 up to a limit, which is not reached."""
    return int.from_bytes(random_bytes(8)) % limit


def random_uuid() -> UUID:
    """Return a UUID of version 4."""
    return UUID(bytes=random_bytes(16), version=4)


def random_id() -> UUID:
    """Return a new id for a topic, a cluster or a directory.

    It is never one that Kafka reserves, and its text never begins with ``-``, which command lines
    would take for an option.
    """
    while True:
        value = random_uuid()
        if value not in RESERVED_IDS and not uuid_text(value).startswith("-"):
            return value
