"""Certificates of clients for the tests of TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.authority import Authority, Pair


@pytest.fixture(scope="session")
def ann(authority: Authority) -> Pair:
    """The certificate that a client shows."""
    return authority.issue("ann", "/O=Mill/OU=Ops/CN=Ann Lee")
