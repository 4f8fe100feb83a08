"""Which certificates a client of ours takes, whatever Python it runs on."""

import ast
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.tls.contexts import make_endpoint
from siltstone.config.tls import TlsConfig
from siltstone.config.trust import make_client_context, why_untrusted
from tests.support.authority import Authority, Pair, openssl

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[True, False], ids=["as from 3.13 on", "as before"])
def a_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts begin as those of a newer or an older Python do."""
    real: Callable[..., ssl.SSLContext] = ssl.create_default_context
    flags = ssl.VerifyFlags.VERIFY_X509_STRICT | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN

    def create(**given: Any) -> ssl.SSLContext:
        context = real(**given)
        if request.param:
            context.verify_flags |= flags
        else:
            context.verify_flags &= ~flags
        return context

    monkeypatch.setattr(ssl, "create_default_context", create)


class Home(Authority):
    """An authority as ``openssl req -x509`` made it until OpenSSL 3.2: no keyUsage, no more."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        super().__init__(folder, name)
        config = folder / "home.cnf"
        config.write_text("[req]\ndistinguished_name=dn\n[dn]\n[v3]\nbasicConstraints=CA:TRUE\n")
        openssl(
            "req", "-x509", "-new", "-key", str(self.key), "-out", str(self.certificate),
            "-days", "30", "-subj", f"/CN={name}", "-config", str(config), "-extensions", "v3",
        )  # fmt: skip


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> OSError | None:
    """Return why a client does not take a server, or a server a client; None if they do."""
    ours, theirs = socket.socketpair()
    faults: list[OSError] = []

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as channel:
                channel.recv(1)
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, client.wrap_socket(ours, server_hostname="localhost") as channel:
            channel.sendall(b"x")
    except OSError as error:
        return error
    finally:
        thread.join()
    return faults[0] if faults else None


def serving(pair: Pair) -> ssl.SSLContext:
    """Return what a server shows a certificate by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.usefixtures("a_python")
@pytest.mark.parametrize("as_text", [False, True])
def test_an_authority_without_key_usage_is_taken(tmp_path: Path, *, as_text: bool) -> None:
    """As Java takes it, and as those that people make at home are."""
    home = Home(tmp_path)
    server = serving(home.issue("server"))
    text = home.certificate.read_text()
    trust = make_client_context(text=text) if as_text else make_client_context(home.certificate)

    assert shake_hands(server, trust) is None


@pytest.mark.usefixtures("a_python")
def test_an_anchor_need_not_be_a_root(tmp_path: Path) -> None:
    """A named one is trusted, the server's own certificate too, as in a trust store of Java."""
    pair = Home(tmp_path).issue("server")

    assert shake_hands(serving(pair), make_client_context(pair.certificate)) is None


@pytest.mark.usefixtures("a_python")
def test_who_signed_it_counts_as_ever(tmp_path: Path) -> None:
    """And the sentence says what is wrong, without OpenSSL's line numbers."""
    server = serving(Home(tmp_path / "theirs").issue("server"))
    fault = shake_hands(server, make_client_context(Home(tmp_path / "ours").certificate))

    assert isinstance(fault, ssl.SSLCertVerificationError)
    assert why_untrusted(fault) == f"its certificate is not trusted ({fault.verify_message})"
    assert why_untrusted(ConnectionResetError()) is None


def test_a_listener_takes_the_clients_of_any_anchor(tmp_path: Path) -> None:
    """An authority below a root is enough in its trust store, as in one of Kafka's."""
    home = Home(tmp_path)
    pair = home.issue("client")
    endpoint = make_endpoint(
        TlsConfig(
            ssl_keystore_location=str(home.issue("server").store),
            ssl_truststore_location=str(pair.certificate),
            ssl_client_auth="required",
        )
    )
    client = make_client_context(home.certificate)
    client.load_cert_chain(pair.certificate, pair.key)

    assert shake_hands(endpoint.context, client) is None


def test_no_other_place_makes_such_contexts() -> None:
    """Else the next one is strict on one Python and not on another."""
    made = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("broker", "config", "pipeline", "storage", "siltstone/testing")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in {"create_default_context", "PROTOCOL_TLS_CLIENT"}
    ]

    assert [each.partition(":")[0] for each in made] == ["config/trust.py"]
