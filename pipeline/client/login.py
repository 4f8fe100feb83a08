"""Logging in to a broker: SASL PLAIN and SCRAM (RFC 5802), with the settings of Kafka.

Name and password are read from ``sasl.jaas.config``, as Spark's Kafka source has them, or from
librdkafka's ``sasl.username`` and ``sasl.password``.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from siltstone.config.jaas import parse_jaas
from siltstone.pipeline.client import tls
from siltstone.pipeline.errors import BadOption, SourceUnavailable

MECHANISMS: Final = {"PLAIN": "", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms, with the hash of each."""
_LEAST_ITERATIONS: Final = 4096

Exchange = Callable[[bytes], bytes]
"""Sends one message of a login and returns the broker's answer."""


class Login(NamedTuple):
    """A mechanism, a name and a password."""

    mechanism: str
    username: str
    password: str

    def perform(self, exchange: Exchange) -> None:
        """Log in; with SCRAM, also check that the broker knows the password.

        Raises:
            SourceUnavailable: the broker does not know it.
        """
        if self.mechanism == "PLAIN":
            exchange(f"\0{self.username}\0{self.password}".encode())
        else:
            _perform_scram(self, MECHANISMS[self.mechanism], exchange)


def read_login(settings: Mapping[str, str]) -> Login:
    """Return the login that settings of a SASL listener ask for.

    Raises:
        BadOption: the mechanism is not known here, or name or password are missing.
    """
    mechanism = settings.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise BadOption(
            f"kafka.sasl.mechanism={settings.get('sasl.mechanism', '')} is not spoken by the fetch "
            f"transport, which knows {', '.join(MECHANISMS)}; read with transport=pinned, or over "
            "a listener that takes one of these"
        )
    found = _names(settings)
    if set(found) != {"username", "password"}:
        raise BadOption('kafka.sasl.jaas.config needs username="…" and password="…"')
    return Login(mechanism, found["username"], found["password"])


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Java clients by the names that librdkafka has for them."""
    found = {
        name: value
        for name, value in settings.items()
        if name != "sasl.jaas.config" and not name.startswith("ssl.")
    }
    found |= tls.for_librdkafka(settings)
    named = {f"sasl.{name}": value for name, value in _names(settings).items()}
    return named | found if "sasl.mechanism" in settings else found


def _names(settings: Mapping[str, str]) -> dict[str, str]:
    """Return name and password, as far as they are given.

    Raises:
        BadOption: sasl.jaas.config is no such text.
    """
    found: dict[str, str] = {}
    if "sasl.jaas.config" in settings:
        try:
            options = parse_jaas(settings["sasl.jaas.config"]).options
        except ValueError as error:
            raise BadOption(f"kafka.sasl.jaas.config must be {error}") from error
        found = {name: options[name] for name in ("username", "password") if name in options}
    return found | {
        name: settings[f"sasl.{name}"]
        for name in ("username", "password")
        if f"sasl.{name}" in settings
    }


def _perform_scram(login: Login, hashed: str, exchange: Exchange) -> None:
    name = login.username.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(18)
    ours = f"n={name},r={nonce}"
    theirs = exchange(f"n,,{ours}".encode()).decode()
    try:
        facts = _facts(theirs)
        salt, iterations = b64decode(facts["s"], validate=True), int(facts["i"])
        is_for_us = facts["r"].startswith(nonce) and iterations >= _LEAST_ITERATIONS
    except (KeyError, ValueError) as error:
        raise _stranger() from error
    if not is_for_us:
        raise _stranger()
    salted = hashlib.pbkdf2_hmac(hashed, login.password.encode(), salt, iterations)
    last = f"c=biws,r={facts['r']}"
    said = f"{ours},{theirs},{last}".encode()
    key = hmac.digest(salted, b"Client Key", hashed)
    signature = hmac.digest(hashlib.new(hashed, key).digest(), said, hashed)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    answer = _facts(exchange(f"{last},p={b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hashed), said, hashed)
    if not hmac.compare_digest(answer.get("v", ""), b64encode(expected).decode()):
        raise _stranger()


def _facts(text: str) -> dict[str, str]:
    """Return the attributes of a message; a value may have ``=`` in it."""
    return {each[:1]: each[2:] for each in text.split(",") if each[1:2] == "="}


def _stranger() -> SourceUnavailable:
    return SourceUnavailable(
        "the other side does not know the password either; check kafka.bootstrap.servers"
    )
