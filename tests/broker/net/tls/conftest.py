"""An authority whose certificates the tests of TLS share, and brokers that show one."""

from __future__ import annotations

import pytest

from tests.support.authority import Authority, Pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that signs certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server(authority: Authority) -> Pair:
    """What a broker shows its clients."""
    return authority.issue("server")


@pytest.fixture(scope="session")
def ann(authority: Authority) -> Pair:
    """What a client shows."""
    return authority.issue("ann", "/O=Mill/OU=Ops/CN=Ann Lee")
