"""Settings of TLS: of all listeners, of one, of the HTTP port, and what they may not say."""

from functools import partial

import pytest

from siltstone.config.describe import show, show_as_json
from siltstone.config.errors import ConfigError
from siltstone.config.load import load
from siltstone.config.reloading import shown
from siltstone.config.tls import NEWER_SUITES, OLDER_SUITES, TlsConfig, versions_of
from tests.support import start_faults

TWO = (
    "listeners=LAN://127.0.0.1:9092,WAN://127.0.0.1:9093",
    "listener.security.protocol.map=LAN:SSL,WAN:SASL_SSL",
    "sasl.enabled.mechanisms=SCRAM-SHA-512",
)
STORE = "ssl.keystore.location=/etc/store.pem"


def settings(*sets: str) -> dict[str, TlsConfig]:
    """Return what listeners that encrypt are given."""
    return load(None, {}, [*TWO, *sets]).server().tls_listeners()


faults_of = partial(start_faults.faults_of, *TWO)


def test_what_a_listener_is_given_wins() -> None:
    """Before what all are given."""
    found = settings(
        STORE,
        "ssl.enabled.protocols=TLSv1.3",
        "listener.name.lan.ssl.keystore.location=/etc/lan.pem",
        "listener.name.lan.ssl.enabled.protocols=TLSv1.2,TLSv1.3",
    )

    assert found.keys() == {"LAN", "WAN"}
    assert found["LAN"].ssl_keystore_location == "/etc/lan.pem"
    assert found["LAN"].ssl_enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert found["WAN"].ssl_keystore_location == "/etc/store.pem"
    assert found["WAN"].ssl_enabled_protocols == ("TLSv1.3",)


def test_a_listener_with_sasl_asks_for_certificates_only_by_its_own_setting() -> None:
    """As Kafka's do: there the login names the client."""
    trust = "ssl.truststore.location=/etc/trust.pem"

    found = settings(STORE, trust, "ssl.client.auth=REQUIRED")
    own = settings(STORE, trust, "listener.name.wan.ssl.client.auth=requested")

    assert (found["LAN"].ssl_client_auth, found["WAN"].ssl_client_auth) == ("required", "none")
    assert (own["LAN"].ssl_client_auth, own["WAN"].ssl_client_auth) == ("none", "requested")


def test_the_http_port_is_a_listener_by_the_name_http() -> None:
    """It has the same settings, with its own prefix."""
    own = "listener.name.http.ssl.keystore.location=/etc/http.pem"

    found = settings(STORE, "http.security.protocol=SASL_SSL", own)

    assert found["http"].ssl_keystore_location == "/etc/http.pem"
    assert "http" not in settings(STORE)
    (fault,) = faults_of(STORE, own)
    assert "is for the listener http, which does not encrypt" in fault


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ((), "the listener LAN encrypts, but ssl.keystore.location is not set"),
        (("ssl.keystore.key=x",), "but ssl.keystore.certificate.chain is not set"),
        (("ssl.keystore.certificate.chain=x",), "but ssl.keystore.key is not set"),
        ((STORE, "ssl.keystore.key=x"), "has both ssl.keystore.location and"),
        (("ssl.keystore.password=x",), "has ssl.keystore.password, but no ssl.keystore.location"),
        ((STORE, "ssl.truststore.password=x"), "but no ssl.truststore.location"),
        ((STORE, "ssl.keystore.type=BCFKS"), "it must be one of PEM, PKCS12, JKS"),
        ((STORE, "listener.name.lan.ssl.truststore.type=KS"), "one of PEM, PKCS12, JKS"),
        ((STORE, "ssl.client.auth=required"), "but no authority whose certificates it takes"),
        ((STORE, "ssl.client.auth=maybe"), "it must be one of required, requested, none"),
        ((STORE, "ssl.enabled.protocols=TLSv1.1"), "it must be a list of TLSv1.2, TLSv1.3"),
        ((STORE, "ssl.enabled.protocols="), "has no version of TLS"),
        ((STORE, "ssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA"), "no forward secrecy"),
        ((STORE, f"ssl.cipher.suites={NEWER_SUITES[0]}"), "they are served together"),
        (
            (
                STORE,
                "ssl.enabled.protocols=TLSv1.3",
                f"ssl.cipher.suites={next(iter(OLDER_SUITES))}",
            ),
            "has no cipher suite for TLSv1.3",
        ),
        ((STORE, "ssl.principal.mapping.rules=RULE:(/x/"), "must be rules with expressions of RE2"),
        (
            (STORE, "ssl.principal.mapping.rules=RULE:a/$1/"),
            "must be rules whose replacements name",
        ),
        (
            (STORE, "ssl.truststore.location=a", "ssl.truststore.certificates=b"),
            "has both ssl.truststore.location and ssl.truststore.certificates",
        ),
        ((STORE, "listener.name.lna.ssl.key.password=x"), "lna, which is not in listeners"),
        ((STORE, "ssl.engine.factory.class=Mine"), "promises something of TLS in Java"),
    ],
)
def test_what_cannot_be_obeyed_stops_the_start(sets: tuple[str, ...], words: str) -> None:
    """With one sentence that says what to do."""
    faults = faults_of(*sets)

    assert any(words in fault for fault in faults), faults


def test_tls_that_no_listener_has_stops_the_start() -> None:
    """A user that set it believes that connections are encrypted; defaults promise nothing."""
    with pytest.raises(ConfigError, match="promises TLS, but no listener has it"):
        load(None, {}, [STORE])
    with pytest.raises(ConfigError, match="is for the listener plaintext, which does not encrypt"):
        load(None, {}, ["listener.name.plaintext.ssl.keystore.location=x"])
    for harmless in (
        "ssl.client.auth=NONE",
        "ssl.keystore.type=JKS",
        "ssl.enabled.protocols=TLSv1.2,TLSv1.3",
        "listener.name.plaintext.ssl.client.auth=none",
    ):
        assert load(None, {}, [harmless]).server().tls_listeners() == {}


def test_suites_of_one_version_leave_out_the_other() -> None:
    """As in Java, where a version without a suite is not spoken."""
    newer = settings(STORE, f"ssl.cipher.suites={','.join(NEWER_SUITES)}")["LAN"]
    older = settings(STORE, f"ssl.cipher.suites={','.join(OLDER_SUITES)}")["LAN"]

    assert versions_of(newer) == ("TLSv1.3",)
    assert versions_of(older) == ("TLSv1.2",)
    assert versions_of(settings(STORE)["LAN"]) == ("TLSv1.2", "TLSv1.3")


def test_secrets_are_never_shown() -> None:
    """Keys and passwords are in no list of settings, and in no difference between two."""
    layers = load(
        None, {}, [*TWO, STORE, "ssl.key.password=hush", "listener.name.wan.ssl.key.password=husk"]
    )

    text = "\n".join(show(show_as_json(layers)))
    assert "hush" not in text
    assert "husk" not in text
    assert "ssl.key.password" in text
    assert shown(layers, "ssl.key.password") == "(hidden)"
    assert "hush" not in repr(layers.server().tls_listeners())
