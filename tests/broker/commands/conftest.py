"""Fixtures for tests of commands: a terminal that says nothing of itself."""

import pytest


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are as long as they are, whatever terminal the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)
