"""Checks tokens (RFC 7515, RFC 7519, RFC 8725; Kafka: BrokerJwtValidator).

PyJWT checks signatures. Before that, this module decides which algorithm may be used, by a list and
by the key: a signature by a shared secret is never accepted, whatever the token says. Keys or
addresses in a token are ignored. No text of a fault quotes the token.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.config.oauth import OAuthSettings
from siltstone.storage.clock import Clock
from siltstone.storage.directory.strict_json import read_json

if TYPE_CHECKING:
    from siltstone.broker.security.oauth.keys import Keys

_PARTS: Final = 3
_LATEST: Final = 1 << 53
"""No date is later: seconds that a double tells apart."""
MAX_LIFETIME_MS: Final = 1 << 40
"""35 years, so that clients can count it in nanoseconds."""
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")
_UNWRITABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""In no name: a line of a log could be forged by it, or not be written at all."""


class TokenFault(Exception):  # noqa: N818  # of the token, not of the program
    """A token is refused; the text says why, for the broker's log."""


class Proven(NamedTuple):
    """The subject of a token, and for how long the token is valid from now on."""

    subject: str
    lifetime_ms: int


class TokenChecker:
    """Checks the tokens of one listener (any thread); without ``keys`` accepts unsigned tokens."""

    def __init__(self, settings: OAuthSettings, clock: Clock, keys: Keys | None) -> None:
        self._settings = settings
        self._clock = clock
        self._keys = keys

    def check(self, token: str) -> Proven:
        """Return the subject of a valid token. May block to read keys.

        Raises:
            TokenFault: The token is not valid.
        """
        parts = token.split(".")
        if len(parts) != _PARTS:
            raise TokenFault("the token is malformed")
        header = _read_object(_decode(parts[0]))
        if "crit" in header or "b64" in header:
            raise TokenFault("the token's header asks for what is not known here")
        if self._keys is None:
            if header.get("alg") != "none" or parts[2]:
                raise TokenFault("the token is signed, and this listener takes unsigned ones")
            payload = _decode(parts[1])
        else:
            payload = self._verify(self._keys, token, header)
        return self._judge(_read_object(payload))

    def _verify(self, keys: Keys, token: str, header: dict[str, Any]) -> bytes:
        """Return the signed claims."""
        from siltstone.broker.security.oauth.keys import ALGORITHMS, verify  # noqa: PLC0415  # PyJWT

        algorithm, name = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenFault("the token has an algorithm that is not taken")
        if name is not None and not isinstance(name, str):
            raise TokenFault("the token is malformed")
        key = keys.find(name, algorithm)
        if key is None:
            raise TokenFault("no key fits the token")
        payload = verify(token, key, algorithm)
        if payload is None:
            raise TokenFault("the signature is not right")
        return payload

    def _judge(self, claims: dict[str, Any]) -> Proven:
        settings = self._settings
        now_ms = self._clock.now_ms()
        expires_ms = _milliseconds(claims, "exp")
        if now_ms >= expires_ms + settings.skew_ms:
            raise TokenFault("the token has expired")
        for name in ("iat", "nbf"):
            is_needed = name == "iat" and not settings.is_unsecured
            if (is_needed or name in claims) and (
                _milliseconds(claims, name) > now_ms + settings.skew_ms
            ):
                raise TokenFault(f"the token is not valid yet, by its {name}")
        if settings.issuer is not None and claims.get("iss") != settings.issuer:
            raise TokenFault("the token is from another issuer")
        audiences = _texts(claims.get("aud", []), "aud")
        if settings.audiences and audiences.isdisjoint(settings.audiences):
            raise TokenFault("the token is for another audience")
        _texts(claims.get(settings.scope_claim, []), "scope")
        subject = claims.get(settings.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenFault("the token names no user")
        if _UNWRITABLE.search(subject):
            raise TokenFault("the token names a user with characters that no name has")
        return Proven(subject, max(1, min(expires_ms - now_ms, MAX_LIFETIME_MS)))


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    """Return a date of a token in ms."""
    value = claims.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not is_number or not 0 <= value < _LATEST:
        raise TokenFault(f"the token has no date {name}")
    return int(value * 1000)


def _texts(value: object, name: str) -> set[str]:
    """Return the texts of a claim that is one text or a list."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise TokenFault(f"the token has no {name} that can be read")
    return set(given)


def _read_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object; a name that comes twice is a fault, since either value could count."""
    try:
        found = read_json(content)
    except ValueError as error:
        raise TokenFault("the token is malformed") from error
    if not isinstance(found, dict):
        raise TokenFault("the token is malformed")
    return found


def _decode(text: str) -> bytes:
    if _BASE64.fullmatch(text) is None:
        raise TokenFault("the token is malformed")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise TokenFault("the token is malformed") from error
