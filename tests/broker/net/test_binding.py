"""Errors of an address that cannot be bound."""

import socket

import pytest

from siltstone.broker.net.binding import why_not_bound


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("127.0.0.1", "Address already in use; stop what uses the address, or choose another port"),
        ("192.0.2.7", "Cannot assign requested address; this machine does not have it"),
        ("kafka.invalid", "; give an address of this machine, or a name that resolves here"),
    ],
)
def test_each_fault_has_its_remedy(host: str, sentence: str) -> None:
    """A name that does not resolve is not an address that others use."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.socket() as sock,
        pytest.raises(OSError) as raised,  # noqa: PT011  # its number is what counts
    ):
        sock.bind((host, taken.getsockname()[1]))

    assert sentence in why_not_bound(raised.value)
