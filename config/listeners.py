"""Listeners: the addresses that the broker binds, and those that it advertises to clients.

Kafka's classes: EndPoint, ListenerName, SocketServerConfigs.
"""

import re
import socket
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from siltstone.config import machine

AUTO = "auto"
"""As an advertised host: each client is told the address that it has reached."""

_ENDPOINT = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WILDCARDS = ("0.0.0.0", "::", "::0", "0:0:0:0:0:0:0:0")  # noqa: S104 - refused, not bound
_REACHED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - likewise
_HIGHEST_PORT = 65535
_LOOPBACK = 127  # the first byte of loopback's IPv4 addresses


class Listener(NamedTuple):
    """One address, of a socket to bind (an empty host is every interface) or to advertise."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        """Return the address as the settings write it."""
        return f"{self.name}://{show_address(self.host, self.port)}"


def protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol of each listener name.

    Raises:
        ValueError: an entry is not NAME:PROTOCOL, or a name comes twice.
    """
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not name or not colon or protocol not in PROTOCOLS:
            raise ValueError(
                f"has the entry {entry}; write NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}"
            )
        if name in protocols:
            raise ValueError(f"names the listener {name} twice")
        protocols[name] = protocol
    return protocols


def parse_listeners(
    texts: Iterable[str], protocols: Mapping[str, str], unmapped: Container[str] = ()
) -> tuple[Listener, ...]:
    """Return the listeners of a list like PLAINTEXT://127.0.0.1:9092,LAN://[::1]:9093.

    Names in `unmapped` need no security protocol and count as PLAINTEXT.

    Raises:
        ValueError: a listener is not NAME://host:port, has no protocol, needs security, or comes
            twice.
    """
    listeners: dict[str, Listener] = {}
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise ValueError(f"has the entry {text}; write NAME://host:port, an IPv6 host in []")
        if int(match[3]) > _HIGHEST_PORT:
            raise ValueError(f"has the entry {text}; a port is at most {_HIGHEST_PORT}")
        name = match[1].upper()
        if name in listeners:
            raise ValueError(f"names the listener {name} twice; give each a name of its own")
        if name not in protocols and name not in unmapped:
            protocol = next((each for each in reversed(PROTOCOLS) if each in name), "PLAINTEXT")
            raise ValueError(
                f"names the listener {name}, which listener.security.protocol.map does not have; "
                f"add {name}:{'SSL' if 'TLS' in name else protocol} to it"
            )
        listeners[name] = Listener(name, match[2], int(match[3]), protocols.get(name, "PLAINTEXT"))
    return tuple(listeners.values())


def show_address(host: str, port: int) -> str:
    """Return an address as text, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener that is bound to ``host``."""
    name = host.lower().rstrip(".")
    if name in {"localhost", "::1"}:
        return True
    try:
        return socket.inet_pton(socket.AF_INET, name)[0] == _LOOPBACK
    except OSError:
        return False


def reachable(host: str) -> str:
    """Return the host by which this machine can reach a listener that is bound to ``host``."""
    return _REACHED.get(host, host)


def names_in(text: str) -> set[str]:
    """Return the names in a list of listeners, even if the rest of the list is wrong."""
    return {each.partition("://")[0].strip().upper() for each in text.split(",")} - {""}


def check_bindable(listeners: Iterable[Listener]) -> None:
    """Refuse listeners that this broker cannot open.

    Raises:
        ValueError: two listeners need the same port of the same interface.
    """
    taken: list[Listener] = []
    for listener in listeners:
        for other in taken:
            if listener.port == other.port != 0 and _overlap(listener.host, other.host):
                raise ValueError(f"has {other} and {listener} on one port; give each its own")
        taken.append(listener)


def _overlap(one: str, other: str) -> bool:
    return one == other or not one or not other or one in _WILDCARDS or other in _WILDCARDS


def advertise(bound: Iterable[Listener], given: Iterable[Listener]) -> tuple[Listener, ...]:
    """Return the advertised address of each bound listener.

    A listener that is not in ``given`` is advertised as it is bound. An empty host becomes this
    machine's name. Port 0 stays 0, and means the port that was bound.

    Raises:
        ValueError: a name in ``given`` is not bound, or no client can connect to a host.
    """
    told = {listener.name: listener for listener in given}
    bound = tuple(bound)
    strangers = told.keys() - {listener.name for listener in bound}
    if strangers:
        raise ValueError(f"names {min(strangers)}, which is not in listeners; add it there")
    return tuple(_routable(told.get(listener.name, listener)) for listener in bound)


def _routable(listener: Listener) -> Listener:
    if listener.host in _WILDCARDS:
        raise ValueError(
            f"would tell clients to connect to {listener}, an address that no client can reach; "
            f"set advertised.listeners={listener.name}://HOST:PORT as clients see this machine"
        )
    if listener.host.lower() == AUTO:
        return listener._replace(host=AUTO)
    return listener if listener.host else listener._replace(host=machine.public_name())


def parse_host_port(text: str) -> tuple[str, int]:
    """Return host and port of `127.0.0.1:9464`, `[::1]:9464` or `:9464`.

    Raises:
        ValueError: the text has another form.
    """
    match = _ENDPOINT.fullmatch(f"HTTP://{text}")
    if match is None or int(match[3]) > _HIGHEST_PORT:
        raise ValueError(f"is {text}; write host:port, an IPv6 host in []")
    return match[2], int(match[3])
