"""The seam of randomness: secrets that cannot be guessed, and ids that are never used twice.

No other module asks the system for random bytes. Both come from the generator of the operating
system.
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
    """Return a whole number from 0, inclusive, to a limit, exclusive."""
    return int.from_bytes(random_bytes(8)) % limit


def random_uuid() -> UUID:
    """Return a UUID of version 4."""
    return UUID(bytes=random_bytes(16), version=4)


def random_id() -> UUID:
    """Return a new id for a topic, a cluster or a directory.

    Kafka does not reserve it, and its text never begins with ``-``: command lines would read such a
    text as an option.
    """
    while True:
        value = random_uuid()
        if value not in RESERVED_IDS and not uuid_text(value).startswith("-"):
            return value
