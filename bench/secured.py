"""A broker with listeners for strangers and for clients that encrypt, beside its plain one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.brokers import OURS, Broker, make_broker, port_of
from bench.connection import Connection, part, request_class
from tests.support.authority import Authority
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MODULE: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f'{_MODULE}.plain.PlainLoginModule required user_alice="secret";'
_SCRAM: Final = f"{_MODULE}.scram.ScramLoginModule required;"
_WITH_SASL: Final = ("sasl_plaintext", "sasl_ssl")
_ALTER_USERS: Final = 51
_SCRAM_SHA_256: Final = 1
USER: Final = "alice"
PASSWORD: Final = "secret"
ITERATIONS: Final = 4096


class Secured(NamedTuple):
    """A broker that is ready to be launched, the ports of its listeners, and whom to trust."""

    broker: Broker
    sasl: int
    tls: int
    sasl_tls: int
    authority: Path


def make_secured(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> Secured:
    """Prepare a broker with SASL_PLAINTEXT, SSL and SASL_SSL, its certificates and a user."""
    authority = Authority(folder / "tls")
    pair = authority.issue("server")
    broker = make_broker(name, folder, settings)
    if name == OURS:
        broker.prepare()  # which chooses the port
    sasl, tls, sasl_tls = free_ports(3)
    controller = [
        each
        for each in broker.settings.get("listeners", "").split(",")
        if each.startswith("CONTROLLER")
    ]
    own = [
        f"PLAINTEXT://{broker.bootstrap}",
        f"SASL_PLAINTEXT://127.0.0.1:{sasl}",
        f"SSL://127.0.0.1:{tls}",
        f"SASL_SSL://127.0.0.1:{sasl_tls}",
    ]
    broker.settings |= {
        "listeners": ",".join((*own, *controller)),
        "advertised.listeners": ",".join(own),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        **{f"listener.name.{each}.plain.sasl.jaas.config": _PLAIN for each in _WITH_SASL},
        **{f"listener.name.{each}.scram-sha-256.sasl.jaas.config": _SCRAM for each in _WITH_SASL},
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pair.store),
    }
    if name != OURS:
        broker.prepare()  # which writes the settings
    return Secured(broker, sasl, tls, sasl_tls, authority.certificate)


def add_scram_user(broker: Broker) -> None:
    """Let the user of PLAIN log in by SCRAM-SHA-256, too, of a broker that runs."""
    salt = b"a salt of bench!"
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, ITERATIONS)
    request = request_class(_ALTER_USERS, 0)
    row = part(request, "ScramCredentialUpsertion")(
        name=USER,
        mechanism=_SCRAM_SHA_256,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=salted,
    )
    connection = Connection(port_of(broker))
    try:
        connection.ask_until(
            request(deletions=(), upsertions=(row,)),
            lambda answer: not any(each.error_code for each in answer.results),
        )
    finally:
        connection.close()
