"""Certificates of clients for the tests of TLS."""

import pytest

from tests.support.authority import Authority, Pair


@pytest.fixture(scope="session")
def ann(authority: Authority) -> Pair:
    """The certificate that a client shows."""
    return authority.issue("ann", "/O=Mill/OU=Ops/CN=Ann Lee")
