"""Values of settings that Apache Kafka once ran or opened: here they are words, or refused.

CVE-2023-25194, CVE-2025-27818 and CVE-2025-27819: a login module that asks a directory service and
runs what it is sent. CVE-2024-31141: providers that put files and variables into values.
CVE-2025-27817: addresses of tokens and of keys. That tokens themselves name no key or address is in
oauth/test_tokens.py.
"""

import socket
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.config.describe import show, show_as_json
from siltstone.config.errors import ConfigError, NotAlterableError
from siltstone.config.layers import Layers
from siltstone.config.load import load
from siltstone.pipeline.client.login import read_login
from siltstone.pipeline.errors import BadOption
from tests.support.kio_messages import request
from tests.support.running import Running, a_broker

JNDI = "com.sun.security.auth.module.JndiLoginModule"
LDAP = "com.sun.security.auth.module.LdapLoginModule"
OPTIONS = 'user.provider.url="ldap://127.0.0.1:1/x" useFirstPass="true" group.provider.url="x";'
OAUTH = "org.apache.kafka.common.security.oauthbearer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENER = (
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
)
BROKER = 4


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everybody whom a value would have had asked: nobody is."""
    found: list[Any] = []
    real = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if host not in {"127.0.0.1", "localhost", "::1"}:
            found.append(host)
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return found


# A broker that anybody may change, so that values alone decide.
home = a_broker()


async def alter(home: Running, name: str, value: str, resource: str = "1") -> Any:
    """Return the answer to a change of one setting of the broker."""
    change = {"name": name, "value": value}
    row = {"resource_type": BROKER, "resource_name": resource, "configs": [change]}
    answer = await (await home.call()).ask(request(44, 1, resources=[row]))
    (result,) = answer.responses
    return result


@pytest.mark.parametrize("module", [JNDI, LDAP, "com.example.Anything"])
@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512", "oauthbearer"])
@pytest.mark.parametrize("prefix", ["", "listener.name.lan.{}."])
def test_cve_2023_25194_a_login_module_is_one_of_kafkas(
    module: str, mechanism: str, prefix: str, asked: list[Any]
) -> None:
    """Another stops the start, wherever it is named; none is loaded by its name."""
    name = f"{prefix.format(mechanism)}sasl.jaas.config"
    with pytest.raises(ConfigError) as caught:
        load(None, {}, [*LISTENER, f"{name}={module} required {OPTIONS}"])

    assert any(name in fault for fault in caught.value.faults)
    assert not any("ldap:" in fault for fault in caught.value.faults)
    assert asked == []


@pytest.mark.parametrize("module", [JNDI, LDAP, PLAIN])
@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "listener.name.plaintext.plain.sasl.jaas.config",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config",
        "listener.name.plaintext.oauthbearer.sasl.jaas.config",
    ],
)
async def test_cve_2025_27819_no_client_names_a_login_module(
    home: Running, module: str, name: str, asked: list[Any]
) -> None:
    """INVALID_CONFIG or INVALID_REQUEST for the running broker, for one and for all; not kept."""
    for resource in ("1", ""):
        result = await alter(home, name, f"{module} required {OPTIONS}", resource)
        assert result.error_code in {ErrorCode.invalid_config, ErrorCode.invalid_request}

    assert not _files_with(home, module)
    assert asked == []


@pytest.mark.parametrize("module", [JNDI, LDAP])
def test_cve_2025_27818_the_pipeline_takes_a_name_and_a_password(module: str) -> None:
    """Of a login module it reads these two words; it loads none, and asks for both."""
    settings = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{module} required {OPTIONS}"}

    with pytest.raises(BadOption, match="needs username"):
        read_login(settings)


@pytest.mark.parametrize(
    "value", ["${file:/etc/hostname:x}", "${env:SILTSTONE_HUSH}", "${directory:/etc:hostname}"]
)
def test_cve_2024_31141_a_value_is_taken_as_it_is_written(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From both kinds of file, a variable and the command line: nothing is put in its place."""
    monkeypatch.setenv("SILTSTONE_HUSH", "secret-of-the-environment")
    yaml, properties = tmp_path / "server.yaml", tmp_path / "server.properties"
    yaml.write_text(f'audit.log.file: "{value}"\n')
    properties.write_text(f"audit.log.file={value}\n")
    for file, environ, sets in (
        (yaml, {}, []),
        (properties, {}, []),
        (None, {"SILTSTONE_AUDIT_LOG_FILE": value}, []),
        (None, {}, [f"audit.log.file={value}"]),
    ):
        layers = load(file, environ, sets)
        assert layers.server().security.audit_log_file == value
        told = [*show(rows := list(show_as_json(layers))), repr(rows)]
        assert not [line for line in told if "secret-of-the-environment" in line]
    jaas = f'listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_a="{value}";'
    server = load(None, {}, [*LISTENER, jaas]).server()
    (listener,) = server.bound_listeners
    sasl = server.sasl_of(listener)
    assert sasl is not None
    assert sasl.plain_users == {"a": value}


@pytest.mark.parametrize("providers", ["file", "env,directory"])
def test_cve_2024_31141_providers_stop_the_start(providers: str) -> None:
    """A user that names some has references for passwords, which would be the passwords then."""
    with pytest.raises(ConfigError, match=r"config\.providers promises values that are read"):
        load(None, {}, [f"config.providers={providers}"])
    with pytest.raises(ConfigError, match=r"config\.providers promises values that are read"):
        Layers().check_dynamic({"config.providers": providers}, cluster=True)


URLS = ("http://127.0.0.1:1/x", "https://127.0.0.1:1/x", "file:///etc/passwd", "jar:file:/x!/y")


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.allowed.urls",
        "sasl.oauthbearer.token.endpoint.url",
        "listener.name.plaintext.sasl.oauthbearer.jwks.endpoint.url",
        "listener.name.plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
        "listener.name.plaintext.oauthbearer.sasl.oauthbearer.token.endpoint.url",
    ],
)
def test_cve_2025_27817_no_client_names_an_address(name: str, url: str) -> None:
    """Where keys come from is not changed while the broker runs."""
    for cluster in (False, True):
        with pytest.raises((NotAlterableError, ConfigError)):
            Layers().check_dynamic({name: url}, cluster=cluster)


@pytest.mark.parametrize("url", URLS)
async def test_cve_2025_27817_a_running_broker_opens_none(
    home: Running, url: str, asked: list[Any]
) -> None:
    """And keeps none for its next start."""
    for name in ("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.token.endpoint.url"):
        for resource in ("1", ""):
            result = await alter(home, name, url, resource)
            assert result.error_code in {ErrorCode.invalid_config, ErrorCode.invalid_request}

    assert not _files_with(home, url)
    assert asked == []


@pytest.mark.parametrize(
    "handler", [f"{OAUTH}.OAuthBearerLoginCallbackHandler", "com.example.Handler"]
)
def test_cve_2025_27817_no_other_class_fetches(handler: str) -> None:
    """Handlers, readers and checkers of tokens are no names to load."""
    prefix = "listener.name.lan.oauthbearer."
    for name in (
        "sasl.server.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
    ):
        with pytest.raises(ConfigError):
            load(None, {}, [*LISTENER, f"{prefix}{name}={handler}"])


def _files_with(home: Running, word: str) -> list[Path]:
    """Return the files of the log directory that hold a word."""
    folder = home.logs.directories[0].path
    return [
        path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    ]
