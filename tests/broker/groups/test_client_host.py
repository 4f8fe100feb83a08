"""The host of a member, as Kafka spells it."""

from __future__ import annotations

import pytest

from siltstone.broker.groups.client_host import client_host


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.7:9092", "/10.0.0.7"),
        ("[::1]:9092", "/0:0:0:0:0:0:0:1"),
        ("[fe80::1%eth0]:9092", "/fe80:0:0:0:0:0:0:1"),
    ],
)
def test_a_host_is_spelled_as_java_does(peer: str, host: str) -> None:
    """Addresses of version 6 are whole."""
    assert client_host(peer) == host


def test_a_host_is_kept_once_whatever_its_ports() -> None:
    """Each connection of a client has a port of its own."""
    assert client_host("10.0.0.8:1") is client_host("10.0.0.8:2")
