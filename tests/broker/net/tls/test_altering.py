"""Keys and certificates that are altered while the broker runs, as kafka-configs does it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.config.errors import StartError
from tests.support.authority import Authority, Pair
from tests.support.kio_messages import request
from tests.support.running import Caller, Running, running
from tests.support.tls_clients import trusting

LISTENERS = "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
STORE = "listener.name.ssl.ssl.keystore.location"
BROKER = 4


@pytest.fixture(scope="module")
def other(authority: Authority) -> Pair:
    """A second certificate of the broker's."""
    return authority.issue("other")


@pytest.fixture
async def home(tmp_path: Path, server: Pair) -> AsyncIterator[Running]:
    """A broker with a listener that encrypts, and one that does not."""
    sets = (LISTENERS, f"ssl.keystore.location={server.store}")
    async with running(tmp_path / "data", *sets) as started:
        yield started


async def alter(
    home: Running, *settings: tuple[str, str | None], of: str = "1", only_checks: bool = False
) -> ErrorCode:
    """Set settings of a broker, or of all, or delete those without a value; return the code."""
    port = home.listeners[1].port
    caller = Caller(home.keep(await asyncio.open_connection("127.0.0.1", port)))
    configs = [
        {"name": name, "config_operation": int(value is None), "value": value}
        for name, value in settings
    ]
    row = {"resource_type": BROKER, "resource_name": of, "configs": configs}
    answer = await caller.ask(request(44, 1, resources=[row], validate_only=only_checks))
    code: ErrorCode = answer.responses[0].error_code
    return code


async def shown(home: Running, authority: Authority) -> str:
    """Return the name in the certificate that a new client is shown."""
    context = trusting(authority)
    port = home.listeners[0].port

    def look() -> Any:
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert()

    ((_, name),) = (await asyncio.to_thread(look))["subject"][-1]
    return str(name)


async def test_another_key_store_is_obeyed_at_once(
    home: Running, authority: Authority, other: Pair
) -> None:
    """By handshakes that begin later; deleted, the one of the file counts again."""
    assert await shown(home, authority) == "server"
    assert await alter(home, (STORE, str(other.store))) is ErrorCode.none
    assert await shown(home, authority) == "other"
    assert await alter(home, (STORE, None)) is ErrorCode.none
    assert await shown(home, authority) == "server"


async def test_it_is_obeyed_after_a_restart(
    tmp_path: Path, server: Pair, other: Pair, authority: Authority
) -> None:
    """As every dynamic setting."""
    sets = (LISTENERS, f"ssl.keystore.location={server.store}")
    async with running(tmp_path / "data", *sets) as home:
        assert await alter(home, (STORE, str(other.store))) is ErrorCode.none
    async with running(tmp_path / "data", *sets) as home:
        assert await shown(home, authority) == "other"
        await home.broker.reload()
        assert await shown(home, authority) == "other"


async def test_a_start_says_which_settings_were_altered(
    tmp_path: Path, server: Pair, other: Pair
) -> None:
    """Else a reader of the file of settings looks for a path that is not in it."""
    sets = (LISTENERS, f"ssl.keystore.location={server.store}")
    store = tmp_path / "store.pem"
    store.write_bytes(other.store.read_bytes())
    async with running(tmp_path / "data", *sets) as home:
        assert await alter(home, (STORE, str(store))) is ErrorCode.none
    store.unlink()

    with pytest.raises(StartError, match=f"{store} cannot be read") as caught:
        await start(tmp_path / "data", *sets)
    assert str(caught.value).endswith(
        f"; kafka-configs has altered {STORE}: these count before the settings file, so mend what "
        "they name, or remove them from broker_configs in siltstone-catalog.json, and its crc32c"
    )
    catalog = tmp_path / "data" / "siltstone-catalog.json"
    content = json.loads(catalog.read_text())
    del content["broker_configs"][STORE], content["crc32c"]
    catalog.write_text(json.dumps(content))
    await start(tmp_path / "data", *sets)


async def start(data: Path, *sets: str) -> None:
    """Start a broker, and stop it."""
    async with running(data, *sets):
        pass


async def test_other_settings_of_tls_are_obeyed(home: Running, authority: Authority) -> None:
    """Such as whether clients must show a certificate."""
    client_auth = ("listener.name.ssl.ssl.client.auth", "required")
    trusted = ("listener.name.ssl.ssl.truststore.location", str(authority.certificate))

    assert await alter(home, client_auth) is ErrorCode.invalid_request
    assert await alter(home, client_auth, trusted) is ErrorCode.none
    with pytest.raises(OSError, match=r"certificate|reset|EOF|Broken"):
        await asked(home, authority)


async def asked(home: Running, authority: Authority) -> bytes:
    """Return what a client without a certificate is answered."""
    port = home.listeners[0].port

    def ask() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            trusting(authority).wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            tls.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
            return tls.recv(100)

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("only_checks", [True, False])
async def test_a_store_that_cannot_be_used_is_refused(
    home: Running, authority: Authority, tmp_path: Path, only_checks: bool
) -> None:
    """The settings in force stay, and nothing is kept."""
    refused = await alter(home, (STORE, str(tmp_path / "none.pem")), only_checks=only_checks)

    assert refused is ErrorCode.invalid_request
    assert await shown(home, authority) == "server"
    assert home.broker._settings.layers.broker == {}


async def test_what_is_only_checked_is_not_taken(
    home: Running, authority: Authority, other: Pair
) -> None:
    """A store that could be used."""
    assert await alter(home, (STORE, str(other.store)), only_checks=True) is ErrorCode.none
    assert await shown(home, authority) == "server"


@pytest.mark.parametrize("listener", ["internal", "plaintext"])
async def test_a_listener_that_does_not_encrypt_may_have_settings_of_tls(
    home: Running, authority: Authority, listener: str
) -> None:
    """They have no effect, as at Kafka; other changes are taken beside them."""
    setting = (f"listener.name.{listener}.ssl.keystore.location", "/tmp/test.jks")

    assert await alter(home, setting) is ErrorCode.none
    assert await alter(home, ("log.cleaner.threads", "2")) is ErrorCode.none
    assert await alter(home, (setting[0], None)) is ErrorCode.none
    assert await shown(home, authority) == "server"


async def test_keys_are_of_one_broker(home: Running, other: Pair) -> None:
    """Kafka refuses them for all brokers, and without a listener."""
    refused = await alter(home, (STORE, str(other.store)), of="")
    bare = await alter(home, ("ssl.keystore.location", str(other.store)))

    assert {refused, bare} == {ErrorCode.invalid_request}


async def test_settings_of_kerberos_are_taken(home: Running) -> None:
    """They mean nothing without GSSAPI, and Kafka's clients try them."""
    setting = "sasl.kerberos.min.time.before.relogin"

    assert await alter(home, (setting, "58000")) is ErrorCode.none
    assert home.broker._settings.layers.broker == {setting: "58000"}
