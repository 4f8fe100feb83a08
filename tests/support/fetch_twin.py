"""The fetch handler on the plain form of what it does with each partition."""

from typing import Any

import pytest

from siltstone.broker.fetching import sessions as fetch_sessions
from siltstone.broker.fetching import waiting
from siltstone.broker.handlers import fetch
from tests.support.uncompiled import load_uncompiled


def fetch_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every fetch be planned, read and answered in plain Python."""
    plain: Any = load_uncompiled("siltstone.broker.fetching._fetch_kernels")
    body = {name: value for name, value in vars(fetch._Fetch).items() if name != "__doc__"}
    monkeypatch.setattr(fetch, "_Fetch", type("_Fetch", (plain.FetchRead,), body))
    watched: Any = load_uncompiled("siltstone.broker.fetching._session_kernels")
    watched.is_read_up, watched.replica_of = plain.is_read_up, plain.replica_of
    for module, names, source in (
        (fetch_sessions, ("FetchPlan", "list_wanted"), plain),
        (fetch_sessions, ("FetchSession", "add_row", "wanted_of"), watched),
        (fetch, ("Watch", "WatchGroup"), watched),
        (waiting, ("Parked",), watched),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(source, name))
