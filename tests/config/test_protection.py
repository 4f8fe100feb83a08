"""Settings that promise protection: none of them is passed over."""

import re
from pathlib import Path

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.known import known_settings
from siltstone.config.layers import Layers
from siltstone.config.load import load
from siltstone.config.protection import check_stored, find_promise
from siltstone.config.security import STANDARD_AUTHORIZER
from siltstone.config.table import BROKER
from tests.support.start_faults import faults_of

ABOUT_PROTECTION = re.compile(
    r"ssl|tls|sasl|auth|acl|principal|password|secret|token|quota|security|policy\.class|super"
    r"|max\.conn|creation\.rate|per\.ip|credential|kerberos|jaas|early\.start"
)
PROMISE_NOTHING = {
    # between brokers, of which there is one: nobody logs in, and there are no replicas to slow down
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
}
OTHER_VALUES = {"BOOLEAN": "true", "INT": "7", "LONG": "7", "SHORT": "7", "DOUBLE": "0.7"}
PROMISING = sorted(
    name
    for name in known_settings("broker")
    if ABOUT_PROTECTION.search(name)
    and name not in BROKER
    and name not in PROMISE_NOTHING
    and not name.startswith("zookeeper.")  # nothing of it runs here
)


def other_value(name: str) -> str:
    """Return a value of a setting that is not Kafka's default."""
    return OTHER_VALUES.get(known_settings("broker")[name].kind.name, "SCRAM-SHA-512")


@pytest.mark.parametrize("name", PROMISING)
def test_a_promise_of_protection_stops_the_start(name: str) -> None:
    """Every setting about rights is refused in one sentence that says what to do."""
    (fault,) = faults_of(f"{name}={other_value(name)}")

    assert fault.startswith(f"--set: {name} promises ")
    assert "; remove it, and " in fault
    assert "SCRAM" not in fault


@pytest.mark.parametrize("name", PROMISING)
def test_a_promise_in_the_environment_stops_the_start(name: str) -> None:
    """A variable is no way around."""
    variable = f"SILTSTONE_{name.replace('.', '_').upper()}"

    with pytest.raises(ConfigError) as caught:
        load(None, {variable: other_value(name)}, [])

    assert caught.value.faults[0].startswith(f"{variable}: {name} promises ")


@pytest.mark.parametrize("name", PROMISING)
def test_a_promise_for_one_listener_stops_the_start(name: str) -> None:
    """With the prefix of a listener, and of a mechanism, it promises the same."""
    prefixes = ["listener.name.lan.", "listener.name.lan.plain."]
    if name == "sasl.jaas.config":
        prefixes[1] = "listener.name.lan.gssapi."  # for plain it is obeyed
    for prefix in prefixes:
        (fault,) = faults_of(f"{prefix}{name}={other_value(name)}")

        assert fault.startswith(f"--set: {prefix}{name} promises ")


def test_a_limit_by_address_is_of_all_listeners() -> None:
    """Kafka has none for one listener, which would promise something that nobody keeps."""
    (fault,) = faults_of("listener.name.plaintext.max.connections.per.ip=5")

    assert "without the name of a listener" in fault


def test_a_promise_in_a_file_has_its_line(tmp_path: Path) -> None:
    """Each of several is named with its place."""
    file = tmp_path / "server.yaml"
    file.write_text("ssl.provider: Own\ndelegation.token.secret.key: abc\n")

    with pytest.raises(ConfigError) as caught:
        load(file, {}, [])

    first, second = caught.value.faults
    assert first.startswith(f"{file} line 1: ssl.provider promises something of TLS in Java")
    assert second.startswith(f"{file} line 2: delegation.token.secret.key promises delegation")
    assert "abc" not in second


@pytest.mark.parametrize(
    "setting",
    [
        "ssl.endpoint.identification.algorithm=",
        "security.inter.broker.protocol=PLAINTEXT",
        "security.inter.broker.protocol=SASL_SSL",
        "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
        "sasl.mechanism.controller.protocol=PLAIN",
        "listener.name.lan.max.connections.per.ip=2147483647",
        "quota.producer.default=9223372036854775807",
    ],
)
def test_a_value_that_promises_nothing_passes(setting: str) -> None:
    """Kafka's defaults, empty values, and logins of brokers to other brokers, which do not exist.

    They are taken with a warning as other settings are.
    """
    (warning,) = load(None, {}, [setting]).warnings

    assert "has no meaning here" in warning


def test_the_listener_of_a_controller_is_not_opened() -> None:
    """So that whatever is said of it counts for nothing, and keeps nothing from starting."""
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
    server = load(
        None,
        {},
        [
            "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
            "listener.name.controller.ssl.keystore.location=/x",
            "listener.name.controller.sasl.enabled.mechanisms=PLAIN",
            f"listener.name.controller.plain.sasl.jaas.config={module}",
        ],
    ).server()

    assert [each.name for each in server.bound_listeners] == ["PLAINTEXT"]
    (fault,) = faults_of("listener.name.controller.ssl.keystore.location=/x")
    assert "controller, which is not in listeners" in fault


def test_super_users_without_an_authorizer_stop_the_start() -> None:
    """Kafka passes them over; a user that names them relies on rights."""
    (fault,) = faults_of("super.users=User:admin")

    assert fault.startswith("--set: super.users promises access for some only")
    assert "authorizer.class.name is not set" in fault


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "StandardAuthorizer"),
        ("super.users=admin", "User:admin"),
    ],
)
def test_another_authorizer_or_no_principal_stops_the_start(setting: str, word: str) -> None:
    """A setting that cannot be obeyed is not passed over."""
    (fault,) = faults_of(setting)

    assert word in fault


def test_kafkas_authorizer_is_taken() -> None:
    """By its class, with its users and its way with what has no ACL."""
    server = load(
        None,
        {},
        [
            f"authorizer.class.name={STANDARD_AUTHORIZER}",
            "super.users=User:admin;User:CN=b, O=c",
            "allow.everyone.if.no.acl.found=true",
        ],
    ).server()

    assert server.security.authorizer_class_name == STANDARD_AUTHORIZER
    assert server.security.super_users == "User:admin;User:CN=b, O=c"
    assert server.security.allow_everyone_if_no_acl_found


def test_what_is_obeyed_promises_nothing_more() -> None:
    """No setting that the broker obeys is refused."""
    assert [name for name in BROKER if find_promise(name) is not None] == []


def test_a_promise_is_not_taken_while_the_broker_runs() -> None:
    """kafka-configs is told what a start is told."""
    with pytest.raises(ConfigError, match="quotas by rules of its own"):
        Layers().check_dynamic({"client.quota.callback.class": "a.B"}, cluster=True)


def test_stored_promises_are_refused() -> None:
    """A setting that was stored before it was known as a promise is found at the next start."""
    check_stored({"max.connections": "5", "background.threads": "5"})

    with pytest.raises(ConfigError, match=r"^client\.quota\.callback\.class promises"):
        check_stored({"client.quota.callback.class": "a.B"})
