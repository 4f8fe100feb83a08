"""Settings of logins: of all listeners, of one, and of one mechanism."""

from functools import partial

import pytest

from siltstone.config.describe import show, show_as_json
from siltstone.config.errors import ConfigError, NotAlterableError
from siltstone.config.jaas import LoginModule, parse_jaas
from siltstone.config.layers import Layers
from siltstone.config.load import load
from siltstone.config.security import SaslSettings
from tests.support import start_faults

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LAN = (
    "listeners=LAN://127.0.0.1:9092,WAN://127.0.0.1:9093",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT,WAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=SCRAM-SHA-512",
)


def settings(*sets: str) -> tuple[SaslSettings, ...]:
    """Return what the two listeners ask."""
    server = load(None, {}, [*LAN, *sets]).server()
    asked = tuple(server.sasl_of(listener) for listener in server.bound_listeners)
    assert None not in asked
    return asked  # type: ignore[return-value]


faults_of = partial(start_faults.faults_of, *LAN)


def test_the_nearest_value_counts() -> None:
    """A mechanism's before the listener's before the broker's."""
    lan, wan = settings(
        "connections.max.reauth.ms=1000",
        "listener.name.lan.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        "listener.name.lan.connections.max.reauth.ms=2000",
        "listener.name.lan.plain.connections.max.reauth.ms=3000",
        f'listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_alice="a;b" user_bob=c;',
        "listener.name.wan.sasl.server.max.receive.size=1024",
    )

    assert lan.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert lan.max_reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000}
    assert lan.plain_users == {"alice": "a;b", "bob": "c"}
    assert wan == (("SCRAM-SHA-512",), {"SCRAM-SHA-512": 1000}, {}, 1024, None)


def test_a_listener_without_sasl_asks_nothing() -> None:
    """Whatever is enabled for others."""
    protocols = "listener.security.protocol.map=LAN:SASL_PLAINTEXT,WAN:PLAINTEXT"
    server = load(None, {}, [*LAN, protocols]).server()
    lan, wan = (server.sasl_of(listener) for listener in server.bound_listeners)

    assert lan is not None
    assert wan is None


@pytest.mark.parametrize(
    "setting",
    [
        "sasl.enabled.mechanisms=PLAIN",
        "connections.max.reauth.ms=1",
        "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN",
        f"listener.name.plaintext.plain.sasl.jaas.config={PLAIN} required;",
    ],
)
def test_a_login_that_no_listener_asks_for_stops_the_start(setting: str) -> None:
    """A user that set it believes that strangers are kept out."""
    with pytest.raises(ConfigError) as caught:
        load(None, {}, [setting])

    (fault,) = caught.value.faults
    assert fault.startswith(f"--set: {setting.partition('=')[0]} ")
    assert "not ask for SASL; give it SASL_SSL" in fault or "no listener asks" in fault


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("sasl.enabled.mechanisms=", "the listener LAN asks for SASL, but"),
        ("sasl.enabled.mechanisms=GSSAPI", "GSSAPI (Kerberos) is not served"),
        ("listener.name.lan.sasl.enabled.mechanisms=GSSAPI", "GSSAPI (Kerberos) is not"),
        ("listener.name.lna.sasl.enabled.mechanisms=PLAIN", "the listener lna, which is not in"),
        ("listener.name.lan.gssapi.sasl.jaas.config=hush", "promises a login that is not asked"),
        ("sasl.jaas.config=hush", "promises a login that is not asked for"),
        ("sasl.server.callback.handler.class=hush", "promises a login that is not asked for"),
        ("sasl.kerberos.service.name=hush", "promises a login that is not asked for"),
        (
            "listener.name.lan.plain.sasl.jaas.config=com.example.Hush required;",
            f"must be {PLAIN}, the only module of PLAIN",
        ),
        (
            f"listener.name.lan.scram-sha-256.sasl.jaas.config={PLAIN} required;",
            f"must be {SCRAM}, the only module of SCRAM-SHA-256",
        ),
        (
            f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required hush=hush;",
            "must be a module with the options username, password and user_NAME alone",
        ),
        (
            f"listener.name.lan.scram-sha-512.sasl.jaas.config={SCRAM} required user_hush=hush;",
            "must be a module with the options username and password alone",
        ),
        (
            f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_hush=hush",
            "must be one login module with its options, and a ; at its end",
        ),
        ("listener.name.lan.connections.max.reauth.ms=-1", "must be at least 0"),
    ],
)
def test_what_cannot_be_obeyed_stops_the_start(setting: str, fault: str) -> None:
    """In a sentence that quotes no secret."""
    faults = faults_of(setting)

    assert any(fault in each for each in faults), faults
    assert not any("hush" in each.lower().replace("com.example.hush", "") for each in faults)


def test_secrets_are_not_printed() -> None:
    """Neither by ``siltstone config``, nor by what holds them."""
    text = f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_alice=hush;"
    layers = load(None, {}, [*LAN, text])
    (sasl,) = [each for each in settings(text) if each.plain_users]

    rows = list(show_as_json(layers))
    assert "hush" not in repr(rows)
    assert not [line for line in show(rows) if "hush" in line]
    assert "hush" not in repr(sasl) + repr(layers.server())


def test_logins_are_not_changed_while_the_broker_runs() -> None:
    """``kafka-configs`` is told to restart it."""
    name = "listener.name.lan.plain.sasl.jaas.config"

    with pytest.raises(NotAlterableError, match="cannot be altered while the broker runs"):
        Layers().check_dynamic({name: f"{PLAIN} required;"})


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("a.B required;", LoginModule("a.B", {})),
        (
            'a.B REQUIRED x=1 y="2 3" z=\'4"\';',
            LoginModule("a.B", {"x": "1", "y": "2 3", "z": '4"'}),
        ),
        (
            'a.B required // said\n x="a\\"b\\\\c;=" /* and */ y=z ;\n',
            LoginModule("a.B", {"x": 'a"b\\c;=', "y": "z"}),
        ),
    ],
)
def test_jaas_texts_are_read(text: str, module: LoginModule) -> None:
    """Quotes of both kinds, escapes and comments, as Java's tokenizer has them."""
    assert parse_jaas(text) == module


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "a.B;",
        "a.B always;",
        "a.B required",
        "a.B required; c.D required;",
        "a.B required x;",
        "a.B required x=;",
        "a.B required x==1;",
        'a.B required x="1;',
        "a.B required x=1 x=2;",
        "a.B required 'x' 'y' 'z';",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """Half a configuration protects nobody."""
    with pytest.raises(ValueError, match="login module"):
        parse_jaas(text)
