"""Keeps pins from linking a log's files while their names change, and the other way round."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.storage import threads


class NameGate:
    """Keeps the names of a log's files still while a pin links them (any thread).

    `hold` is for the event loop and never waits for the disk. From then on no change of names
    begins; `wait_for_changes` waits for one that is under way. So a change waits while a pin's
    files are linked.
    """

    __slots__ = ("_changes", "_condition", "_holds")

    def __init__(self) -> None:
        self._condition = threads.Condition()
        self._holds = 0  # guarded by: _condition
        self._changes = 0  # likewise

    def hold(self) -> None:
        """Let no change of names begin until `release`."""
        with self._condition:
            self._holds += 1

    def release(self) -> None:
        """Take one `hold` back."""
        with self._condition:
            self._holds -= 1
            self._condition.notify_all()

    def wait_for_changes(self) -> None:
        """Wait for a change of names that is under way; the caller holds the gate. Blocks."""
        with self._condition:
            self._condition.wait_for(lambda: not self._changes)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change names in this block, as soon as the gate is free. Blocks."""
        with self._condition:
            self._condition.wait_for(lambda: not self._holds)
            self._changes += 1
        try:
            yield
        finally:
            with self._condition:
                self._changes -= 1
                self._condition.notify_all()
