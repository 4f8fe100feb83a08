"""Listeners: what is bound and what clients are told."""

from pathlib import Path

import pytest
import yaml

from siltstone.config import machine
from siltstone.config.checks import start_faults
from siltstone.config.listeners import Listener, check_bindable, parse_host_port
from siltstone.config.load import load
from siltstone.config.server import ServerConfig


def test_nothing_set_listens_on_loopback() -> None:
    """Without settings there is one listener that only this machine reaches."""
    server = ServerConfig()

    assert server.bound_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert server.advertised == server.bound_listeners
    assert server.http_address == ("127.0.0.1", 9464)


def test_listeners_have_names_of_their_own() -> None:
    """The map gives any name a protocol; each listener is advertised at its own address."""
    server = ServerConfig(
        listeners=("internal://0.0.0.0:0", "EXTERNAL://[::1]:9093"),
        listener_security_protocol_map="INTERNAL:PLAINTEXT, external:PLAINTEXT",
        advertised_listeners=("INTERNAL://kafka.example:19092",),
    )

    assert server.bound_listeners == (
        Listener("INTERNAL", "0.0.0.0", 0, "PLAINTEXT"),
        Listener("EXTERNAL", "::1", 9093, "PLAINTEXT"),
    )
    assert server.advertised == (
        Listener("INTERNAL", "kafka.example", 19092, "PLAINTEXT"),
        Listener("EXTERNAL", "::1", 9093, "PLAINTEXT"),
    )
    assert str(server.bound_listeners[1]) == "EXTERNAL://[::1]:9093"


def test_an_empty_host_is_advertised_as_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """PLAINTEXT://:9092 binds everything and advertises the host name, as Kafka does."""
    monkeypatch.setattr(machine, "public_name", lambda: "box.example")

    server = ServerConfig(listeners=("PLAINTEXT://:9092",))

    assert server.bound_listeners[0].host == ""
    assert server.advertised == (Listener("PLAINTEXT", "box.example", 9092, "PLAINTEXT"),)


def test_a_machine_without_a_name_has_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name that does not resolve is not advertised."""

    def nowhere(*_args: object, **_kwargs: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", nowhere)
    machine.public_name.cache_clear()

    with pytest.raises(ValueError, match=r"does not resolve .*; set advertised.listeners"):
        _ = ServerConfig(listeners=("PLAINTEXT://:9092",)).advertised


def test_the_name_of_the_machine_is_the_resolvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canonical name is preferred to the short one."""
    found = [(0, 0, 0, "box.example.org", ("192.0.2.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: found)
    machine.public_name.cache_clear()

    assert machine.public_name() == "box.example.org"
    machine.public_name.cache_clear()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
@pytest.mark.parametrize("setting", ["listeners", "advertised_listeners"])
def test_a_wildcard_is_never_advertised(host: str, setting: str) -> None:
    """Clients cannot connect to 0.0.0.0 or ::, so that nobody tells them to."""
    server = ServerConfig(**{setting: (f"PLAINTEXT://{host}:9092",)})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"no client can reach; set advertised.listeners="):
        _ = server.advertised


def test_auto_is_no_name_of_a_host() -> None:
    """However it is written, it stays, and is no name by which HTTP may ask."""
    server = ServerConfig(
        listeners=("PLAINTEXT://0.0.0.0:9092",), advertised_listeners=("PLAINTEXT://AUTO:9092",)
    )

    assert server.advertised == (Listener("PLAINTEXT", "auto", 9092, "PLAINTEXT"),)
    assert "auto" not in server.http_hosts


def test_a_controllers_listener_is_left_out() -> None:
    """A configuration of a combined Kafka node works: its controller is not opened."""
    server = ServerConfig(
        listeners=("PLAINTEXT://localhost:9092", "CONTROLLER://:9093"),
        controller_listener_names=("CONTROLLER",),
    )

    assert [listener.name for listener in server.bound_listeners] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("listeners", "message"),
    [
        (("127.0.0.1:9092",), "write NAME://host:port"),
        (("PLAINTEXT://host",), "write NAME://host:port"),
        (("PLAINTEXT://host:65536",), "a port is at most 65535"),
        (("PLAINTEXT://host:-1",), "write NAME://host:port"),
        (("PLAINTEXT://a b:1",), "write NAME://host:port"),
        (("PLAINTEXT://a:1", "plaintext://b:2"), "names the listener PLAINTEXT twice"),
        (("LAN://a:1",), "add LAN:PLAINTEXT to it"),
    ],
)
def test_malformed_listeners(listeners: tuple[str, ...], message: str) -> None:
    """A listener that is not NAME://host:port with a known name is refused."""
    with pytest.raises(ValueError, match=message):
        _ = ServerConfig(listeners=listeners).bound_listeners


@pytest.mark.parametrize("text", ["LAN", "LAN:TLS", ":PLAINTEXT", "A:SSL,A:PLAINTEXT"])
def test_malformed_protocol_map(text: str) -> None:
    """The map is NAME:PROTOCOL with Kafka's four protocols, each name once."""
    with pytest.raises(ValueError, match=r"write NAME:PROTOCOL|twice"):
        _ = ServerConfig(listener_security_protocol_map=text).bound_listeners


@pytest.mark.parametrize(
    "settings",
    [
        ServerConfig(listeners=("SSL://kafka:9093",)),
        ServerConfig(
            listeners=("EXTERNAL://kafka:9093",), listener_security_protocol_map="EXTERNAL:SSL"
        ),
        ServerConfig(
            listeners=("SASL_SSL://kafka:9093",),
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT",
        ),
    ],
)
def test_security_is_never_to_be_given_up(settings: ServerConfig) -> None:
    """The fault says what TLS needs, never to map it to PLAINTEXT."""
    fault = start_faults(settings)[0][1]

    assert "encrypts, but ssl.keystore.location is not set" in fault or "SASL_SSL:SASL_SSL" in fault
    assert ":PLAINTEXT" not in fault
    assert "map it" not in fault


def test_two_listeners_need_two_ports() -> None:
    """One port of one interface is bound once; port 0 is always another."""
    one = Listener("A", "127.0.0.1", 9092, "PLAINTEXT")

    with pytest.raises(ValueError, match="on one port"):
        check_bindable([one, Listener("B", "", 9092, "PLAINTEXT")])
    check_bindable([one, Listener("B", "127.0.0.2", 9092, "PLAINTEXT")])
    check_bindable([one._replace(port=0), Listener("B", "", 0, "PLAINTEXT")])


def test_only_what_is_bound_is_advertised() -> None:
    """An advertised name without a listener is a mistake."""
    server = ServerConfig(
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT",
        advertised_listeners=("LAN://host:1",),
    )

    with pytest.raises(ValueError, match="names LAN, which is not in listeners"):
        _ = server.advertised


def test_http_addresses() -> None:
    """The HTTP listener is host:port, IPv6 in brackets, an empty host is every interface."""
    assert parse_host_port("[::1]:0") == ("::1", 0)
    assert parse_host_port(":9464") == ("", 9464)
    with pytest.raises(ValueError, match="write host:port"):
        parse_host_port("9464")


def test_names_that_http_clients_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts of the listeners, this machine's name, and whatever is allowed beside."""
    monkeypatch.setattr("socket.gethostname", lambda: "Box")
    server = ServerConfig(
        listeners=("PLAINTEXT://kafka:9092",),
        advertised_listeners=("PLAINTEXT://Kafka.Example:19092",),
        http_listener="monitor:9464",
        http_allowed_hosts=("metrics.example.",),
    )

    assert server.http_hosts == {"box", "kafka", "kafka.example", "monitor", "metrics.example"}


def test_the_compose_files_prometheus_may_scrape() -> None:
    """The name in docker/prometheus.yml is one that the broker of docker/compose.yaml goes by."""
    docker = Path(__file__).parents[2] / "docker"
    compose = yaml.safe_load((docker / "compose.yaml").read_text("utf-8"))
    scraping = yaml.safe_load((docker / "prometheus.yml").read_text("utf-8"))
    (target,) = scraping["scrape_configs"][0]["static_configs"][0]["targets"]

    layers = load(None, compose["services"]["siltstone"]["environment"], [])

    assert target.partition(":")[0] in layers.server().http_hosts
