"""OAUTHBEARER, the server's side (RFC 7628; Kafka: OAuthBearerSaslServer).

A bad token is answered with JSON; the client sends one byte 1, and is then refused in the same
words. Other fields that a client sends with its token have no effect, as in Kafka.
"""

import re
from typing import Final

from siltstone.broker.security.oauth.tokens import TokenChecker, TokenFault
from siltstone.broker.security.scram import OTHER_AUTHORIZATION_ID, SaslFailure

MAX_MESSAGE_BYTES: Final = 65_536
"""Tokens have a few KiB; what is longer is not looked at."""

REFUSAL: Final = '{"status":"invalid_token"}'
_SEPARATOR: Final = "\x01"
_INVALID: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "OAUTHBEARER"
)
_HEADER: Final = re.compile(r"n,(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9_.-]+)", re.IGNORECASE)


class OAuthBearerServer:
    """One conversation: the answer to the client's token is empty, or a refusal.

    Once ``is_complete``, ``user`` is proven for ``lifetime_ms``. ``refusal`` is the reason why the
    token was refused, for the log.
    """

    def __init__(self, checker: TokenChecker) -> None:
        self.user = ""
        self.is_complete = False
        self.lifetime_ms = 0
        self.refusal: str | None = None
        self._checker = checker

    def blocks(self, _: bytes) -> bool:
        """Return True: keys may have to be read."""
        return True

    def step(self, token: bytes) -> bytes:
        """Return the answer to the client's message.

        Raises:
            SaslFailure: The message is malformed, or is the client's byte after a refusal.
        """
        if self.refusal is not None:
            raise SaslFailure(REFUSAL, self.refusal)
        if self.is_complete:
            raise SaslFailure(_INVALID, "a message after the last one")
        authorization_id, text = _parse(token)
        try:
            proven = self._checker.check(text)
        except TokenFault as fault:
            self.refusal = str(fault)
            return REFUSAL.encode()
        if authorization_id not in {"", proven.subject}:
            raise SaslFailure(OTHER_AUTHORIZATION_ID)
        self.user = proven.subject
        self.lifetime_ms = proven.lifetime_ms
        self.is_complete = True
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Return the authorization id, which may be empty, and the token of a first message."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslFailure(_INVALID, f"a message of {len(message)} bytes")
    try:
        header, *pairs, last, end = message.decode().split(_SEPARATOR)
    except ValueError as error:  # not UTF-8, or too few parts
        raise SaslFailure(_INVALID, "the message is malformed") from error
    match = _HEADER.fullmatch(header)
    if match is None or last or end:
        raise SaslFailure(_INVALID, "the message is malformed")
    said: dict[str, str] = {}
    for each in pairs:
        pair = _PAIR.fullmatch(each)
        if pair is None or pair[1] in said:
            raise SaslFailure(_INVALID, "the message is malformed")
        said[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(said.get("auth", ""))
    if bearer is None:
        raise SaslFailure(_INVALID, "the message has no token")
    return (match[1] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]
