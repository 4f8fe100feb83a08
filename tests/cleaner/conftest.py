"""Fixtures for the cleaner's tests: the core and its reference."""

from collections.abc import Iterator

import pytest

from siltstone.protocol.core import compaction
from tests.reference import compaction as reference
from tests.support.forms import NAMES

PARTS = ("MapBuilder", "OffsetMap", "RecordFilter", "Transactions", "digest_of")


@pytest.fixture(params=NAMES)
def both_forms(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a test with the core, and with its reference in its place."""
    with monkeypatch.context() as patch:
        if request.param == "reference":
            for name in PARTS:
                patch.setattr(compaction, name, getattr(reference, name))
        yield str(request.param)
