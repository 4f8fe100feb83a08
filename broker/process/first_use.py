"""Parts that are built late, to keep a start fast: their modules are imported at first use."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Generic, TypeVar

from siltstone.storage import threads

T = TypeVar("T")


class OnFirstUse(Generic[T]):
    """A part that is built once, by the first call of `get` (any thread).

    ``built`` is the part, or None before its first use. It serves code that counts, stops or
    notifies the part and does not need it to exist. `broker.server` builds it, as it builds all
    other parts.
    """

    __slots__ = ("_build", "_lock", "_modules", "built")

    def __init__(self, build: Callable[[], T], modules: Sequence[str] = ()) -> None:
        self.built: T | None = None
        self._build = build
        self._modules = modules
        self._lock = threads.Lock()

    def get(self) -> T:
        """Return the part; the first call builds it."""
        built = self.built
        return self._make() if built is None else built

    def preload(self) -> Iterator[None]:
        """Import one module a step, then build the part; the caller serves others in between."""
        for module in self._modules:
            import_module(module)
            yield
        self.get()

    def _make(self) -> T:
        with self._lock:
            if self.built is None:
                self.built = self._build()
            return self.built
