"""Fixtures for the cleaner's tests: the core in both forms."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from siltstone.protocol.core import compaction, plain_compaction
from tests.support.forms import NAMES


@pytest.fixture(params=NAMES)
def both_forms(
    request: pytest.FixtureRequest, plain_form: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Run a test with the chosen form of the core, and with the plain one if that is another."""
    with plain_form() if request.param == "plain" else nullcontext():
        yield str(request.param)


@pytest.fixture
def plain_form(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], AbstractContextManager[None]]:
    """Return what has the plain form take the place of the chosen one for a while."""

    @contextmanager
    def use() -> Iterator[None]:
        with monkeypatch.context() as patch:
            for name in set(compaction.__all__) - {"COMPILED"}:
                patch.setattr(compaction, name, getattr(plain_compaction, name))
            yield

    return use
