"""A signer of tokens: keys that a test makes, their key set, and signed tokens."""

import base64
import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from siltstone.config.oauth import OAuthSettings

AUDIENCE = "kafka"
ISSUER = "https://issuer.example"
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


def settings(url: str = "file:///keys.json", **changes: Any) -> OAuthSettings:
    """Return how a listener checks tokens: strictly, unless a test says otherwise."""
    given = OAuthSettings(
        url=url,
        audiences=(AUDIENCE,),
        issuer=ISSUER,
        skew_ms=30_000,
        subject_claim="sub",
        scope_claim="scope",
        refresh_ms=3_600_000,
        backoff_ms=100,
        max_backoff_ms=10_000,
        authorities=None,
        is_unsecured=False,
    )
    return given._replace(**changes)


def make_key(algorithm: str) -> Any:
    """Return a new private key for an algorithm."""
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65_537, key_size=2048)


class Issuer:
    """One private key for each algorithm, named by it; those of RSA are the same key."""

    def __init__(self, *algorithms: str) -> None:
        self.keys = {name: make_key(name) for name in algorithms or ("ES256",)}

    def rows(self) -> list[dict[str, Any]]:
        """Return the public keys."""
        return [row(key, kid, kid) for kid, key in self.keys.items()]

    def write(self, file: Path) -> str:
        """Write the set of keys, and return its URL."""
        file.write_text(json.dumps({"keys": self.rows()}))
        file.chmod(0o644)
        return file.as_uri()

    def sign(self, claims: dict[str, Any], algorithm: str = "ES256", **header: Any) -> str:
        """Return a token."""
        headers = {"kid": algorithm, **header}
        given = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(claims, self.keys[algorithm], algorithm, headers=given)


def row(key: Any, algorithm: str, kid: str | None = None) -> dict[str, Any]:
    """Return the public half of a key as it stands in a set."""
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, **({} if kid is None else {"kid": kid}), "alg": algorithm, "use": "sig"}


def claims(now_ms: int, subject: str = "alice", **changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token; a change to None leaves the claim out."""
    now = now_ms // 1000
    said = {"sub": subject, "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + 600, **changes}
    return {name: value for name, value in said.items() if value is not None}


def encode(part: object) -> str:
    """Return a part of a token."""
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def unsigned(said: dict[str, Any], algorithm: str = "none") -> str:
    """Return a token that nobody has signed."""
    return f"{encode({'alg': algorithm})}.{encode(said)}."


def message(token: str, authorization_id: str = "", extra: str = "") -> bytes:
    """Return what a client sends first (RFC 7628)."""
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{extra}\x01".encode()
