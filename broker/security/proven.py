"""Passwords that were right before: a client that logs in again needs no new slow hash.

Only a keyed digest of each password is kept, and each start makes a new key. The digest covers the
verifier of the password, so that an entry is useless once the password or the user is changed. A
wrong password always costs the same work, whether its user is remembered or not.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from siltstone.storage import threads
from siltstone.storage.randomness import random_bytes

if TYPE_CHECKING:
    from siltstone.broker.security.scram import Verifier

_DIGEST: Final = "sha256"
_KEY_BYTES: Final = 32
_LONGEST_PASSWORD: Final = 1024
"""Longer ones are hashed each time: the loop makes the digests."""
_MAX_KNOWN: Final = 10_000


class ProvenPasswords:
    """The digests, by the stored form of the password; the oldest digests are forgotten."""

    def __init__(self) -> None:
        self._key = random_bytes(_KEY_BYTES)
        self._none = random_bytes(_KEY_BYTES)
        self._noting = threads.Lock()  # held for a few instructions
        self._digests: dict[bytes, bytes] = {}

    def has(self, verifier: Verifier, user: str, password: str) -> bool:
        """Return whether this password was right for this user, and still is."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        known = self._digests.get(verifier.stored_key, self._none)
        return hmac.compare_digest(known, self._digest(verifier, user, password))

    def note(self, verifier: Verifier, user: str, password: str) -> None:
        """Remember a password that is right."""
        if len(password) > _LONGEST_PASSWORD:
            return
        digest = self._digest(verifier, user, password)
        with self._noting:
            self._digests[verifier.stored_key] = digest
            if len(self._digests) > _MAX_KNOWN:
                del self._digests[next(iter(self._digests))]

    def _digest(self, verifier: Verifier, user: str, password: str) -> bytes:
        name = user.encode()
        head = len(name).to_bytes(4, "big") + name + verifier.salt + verifier.stored_key
        return hmac.digest(self._key, head + password.encode(), _DIGEST)
