"""What the cleaner's tests share: kernels of both kinds."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from siltstone.cleaner.compiled import _kernels as kernels
from tests.support.forms import NAMES
from tests.support.uncompiled import load_uncompiled

_UNCOMPILED = load_uncompiled("siltstone.cleaner.compiled._kernels")
PLAIN = SimpleNamespace(
    add_keys=_UNCOMPILED.add_keys,
    count_records=_UNCOMPILED.count_records,
    emit_batches=_UNCOMPILED.emit_batches,
    index_batches=_UNCOMPILED.index_batches,
    map_keys=_UNCOMPILED.map_keys,
    move_slots=_UNCOMPILED.move_slots,
    plan_batches=_UNCOMPILED.plan_batches,
)


@pytest.fixture(params=NAMES)
def both_kernels(
    request: pytest.FixtureRequest, plain_kernels: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Run a test with the kernels that were chosen, and with the plain ones if those are others."""
    with plain_kernels() if request.param == "plain" else nullcontext():
        yield str(request.param)


@pytest.fixture
def plain_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], AbstractContextManager[None]]:
    """Return what has the kernels in plain Python take the place of the chosen ones for a while."""

    @contextmanager
    def use() -> Iterator[None]:
        with monkeypatch.context() as patch:
            for name, kernel in vars(PLAIN).items():
                patch.setattr(kernels, name, kernel)
            yield

    return use
