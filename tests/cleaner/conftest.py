"""Fixtures for the cleaner's tests: the core and its reference."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from siltstone.protocol.core import compaction
from tests.reference import compaction as reference
from tests.support.forms import NAMES

PARTS = ("MapBuilder", "OffsetMap", "RecordFilter", "Transactions", "digest_of")


@pytest.fixture(params=NAMES)
def both_forms(
    request: pytest.FixtureRequest, plain_form: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Run a test with the core, and with its reference."""
    with plain_form() if request.param == "reference" else nullcontext():
        yield str(request.param)


@pytest.fixture
def plain_form(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which the reference takes the place of the core."""

    @contextmanager
    def use() -> Iterator[None]:
        with monkeypatch.context() as patch:
            for name in PARTS:
                patch.setattr(compaction, name, getattr(reference, name))
            yield

    return use
