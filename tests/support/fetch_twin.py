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
    for module, names in (
        (fetch_sessions, ("FetchPlan", "FetchSession", "add_row", "list_wanted", "wanted_of")),
        (fetch, ("Watch", "WatchGroup")),
        (waiting, ("Parked",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(plain, name))
