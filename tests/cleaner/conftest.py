"""What the cleaner's tests share: kernels of both kinds."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from siltstone.cleaner.compiled import kernels
from siltstone.protocol.records.choosing import load_uncompiled

_READING = load_uncompiled(kernels.READING)
_WRITING = load_uncompiled(kernels.WRITING)
PLAIN = SimpleNamespace(
    add_keys=_READING.add_keys,
    count_records=_READING.count_records,
    emit_batches=_WRITING.emit_batches,
    index_batches=_WRITING.index_batches,
    map_keys=_READING.map_keys,
    move_slots=_READING.move_slots,
    plan_batches=_READING.plan_batches,
)


@pytest.fixture(params=["chosen", "plain"])
def both_kernels(
    request: pytest.FixtureRequest, plain_kernels: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Run a test with the kernels that were chosen, and with those in plain Python."""
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
