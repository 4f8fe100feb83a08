"""SASL PLAIN, the server's side (RFC 4616; Kafka: PlainSaslServer).

Passwords are stored as SCRAM's are, so that nobody reads them in the file. Checking one costs
milliseconds on purpose, for users that do not exist, too, unless it was right before (`proven`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.security.scram import OTHER_AUTHORIZATION_ID, SHA_512, SaslFailure, proves

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.security.proven import ProvenPasswords
    from siltstone.broker.security.scram import Verifier

PLAIN: Final = "PLAIN"
PLAIN_HASH: Final = SHA_512
"""The hash of stored passwords of PLAIN."""

_PARTS: Final = 3


class PlainServer:
    """One conversation: a token with the name and the password comes, an empty one goes.

    ``user`` is proven once ``is_complete``. ``find`` returns the verifier of a user, and whether
    there is such a user.
    """

    lifetime_ms = 0
    refusal: str | None = None

    def __init__(
        self, find: Callable[[str], tuple[Verifier, bool]], proven: ProvenPasswords
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._find = find
        self._proven = proven

    def blocks(self, token: bytes) -> bool:
        """Return whether the password must be hashed."""
        try:
            _, user, password = _read(token)
        except SaslFailure:
            return False
        verifier, is_known = self._find(user)
        return not (self._proven.has(verifier, user, password) and is_known)

    def step(self, token: bytes) -> bytes:
        """Return the answer to the client's token.

        Raises:
            SaslFailure: It is malformed, or the password is not the user's.
        """
        authorization_id, self.user, password = _read(token)
        verifier, is_known = self._find(self.user)
        if not (self._proven.has(verifier, self.user, password) and is_known):
            if not (proves(PLAIN_HASH, verifier, password) and is_known):
                raise SaslFailure(_INVALID)
            self._proven.note(verifier, self.user, password)
        if authorization_id not in {"", self.user}:
            raise SaslFailure(OTHER_AUTHORIZATION_ID)
        self.is_complete = True
        return b""


def _read(token: bytes) -> list[str]:
    """Return the authorization id, the user and the password.

    Raises:
        SaslFailure: It is malformed.
    """
    try:
        parts = token.decode().split("\0", _PARTS)
    except UnicodeDecodeError as error:
        raise SaslFailure(_INVALID, "the token is not UTF-8") from error
    if len(parts) != _PARTS:
        raise SaslFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    if not parts[1]:
        raise SaslFailure("Authentication failed: username not specified")
    if not parts[2]:
        raise SaslFailure("Authentication failed: password not specified")
    return parts


_INVALID: Final = "Authentication failed: Invalid username or password"
