"""SASL PLAIN, the server's side (RFC 4616; Kafka: PlainSaslServer).

Passwords are stored in the form of SCRAM, so that nobody can read them in the file. The check of a
password takes milliseconds on purpose, also for users that do not exist; it is quick only if the
password was right before (`proven`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from siltstone.broker.security import scram

if TYPE_CHECKING:
    from siltstone.broker.security.proven import ProvenPasswords

PLAIN: Final = "PLAIN"
PLAIN_HASH: Final = scram.SHA_512
"""The hash of stored passwords of PLAIN."""

_PARTS: Final = 3


class PlainServer:
    """One conversation: the client sends a token with name and password, and gets an empty one.

    Once ``is_complete``, ``user`` is proven. ``find`` returns the verifier of a user, and whether
    there is such a user.
    """

    lifetime_ms = 0
    refusal: str | None = None

    def __init__(
        self, find: Callable[[str], tuple[scram.Verifier, bool]], proven: ProvenPasswords
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._find = find
        self._proven = proven

    def blocks(self, token: bytes) -> bool:
        """Return whether the password must be hashed."""
        try:
            _, user, password = _read(token)
        except scram.SaslFailure:
            return False
        verifier, is_known = self._find(user)
        return not (self._proven.has(verifier, user, password) and is_known)

    def step(self, token: bytes) -> bytes:
        """Return the answer to the client's token.

        Raises:
            SaslFailure: The token is malformed, or the password is not the user's.
        """
        authorization_id, self.user, password = _read(token)
        verifier, is_known = self._find(self.user)
        if not (self._proven.has(verifier, self.user, password) and is_known):
            if not (scram.proves(PLAIN_HASH, verifier, password) and is_known):
                raise scram.SaslFailure(_INVALID)
            self._proven.note(verifier, self.user, password)
        if authorization_id not in {"", self.user}:
            raise scram.SaslFailure(scram.OTHER_AUTHORIZATION_ID)
        self.is_complete = True
        return b""


def _read(token: bytes) -> list[str]:
    """Return the authorization id, the user and the password."""
    try:
        parts = token.decode().split("\0", _PARTS)
    except UnicodeDecodeError as error:
        raise scram.SaslFailure(_INVALID, "the token is not UTF-8") from error
    if len(parts) != _PARTS:
        raise scram.SaslFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    if not parts[1]:
        raise scram.SaslFailure("Authentication failed: username not specified")
    if not parts[2]:
        raise scram.SaslFailure("Authentication failed: password not specified")
    return parts


_INVALID: Final = "Authentication failed: Invalid username or password"
