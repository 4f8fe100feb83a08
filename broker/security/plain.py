"""SASL PLAIN, the server's side (RFC 4616; Kafka: PlainSaslServer).

Passwords are stored as SCRAM's are, so that nobody reads them in the file. Checking one costs
milliseconds on purpose, for users that do not exist, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.security.scram import (
    OTHER_AUTHORIZATION_ID,
    SHA_512,
    SaslFailure,
    proves,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.security.scram import Verifier

PLAIN: Final = "PLAIN"
PLAIN_HASH: Final = SHA_512
"""The hash of stored passwords of PLAIN."""

_PARTS: Final = 3


class PlainServer:
    """One conversation: a token with the name and the password comes, an empty one goes.

    ``user`` is proven once ``is_complete``. ``find`` returns the verifier of a user, and whether
    there is such a user. `step` blocks: let an io thread take it.
    """

    blocks = True
    lifetime_ms = 0
    refusal: str | None = None

    def __init__(self, find: Callable[[str], tuple[Verifier, bool]]) -> None:
        self.user = ""
        self.is_complete = False
        self._find = find

    def step(self, token: bytes) -> bytes:
        """Return the answer to the client's token.

        Raises:
            SaslFailure: It is malformed, or the password is not the user's.
        """
        try:
            parts = token.decode().split("\0", _PARTS)
        except UnicodeDecodeError as error:
            raise SaslFailure(_INVALID, "the token is not UTF-8") from error
        if len(parts) != _PARTS:
            raise SaslFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, self.user, password = parts
        if not self.user:
            raise SaslFailure("Authentication failed: username not specified")
        if not password:
            raise SaslFailure("Authentication failed: password not specified")
        verifier, is_known = self._find(self.user)
        if not (proves(PLAIN_HASH, verifier, password) and is_known):
            raise SaslFailure(_INVALID)
        if authorization_id not in {"", self.user}:
            raise SaslFailure(OTHER_AUTHORIZATION_ID)
        self.is_complete = True
        return b""


_INVALID: Final = "Authentication failed: Invalid username or password"
