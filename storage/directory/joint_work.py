"""Work, such as an fsync, that several threads ask for at once and one does for all of them."""

from collections.abc import Callable

from siltstone.storage import threads


class JointWork:
    """Has work done once for all threads that ask while it is being done for others.

    A call sees all that happened before it: it never takes part in work that has begun.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._working = threads.Lock()
        self._counting = threads.Lock()  # held for a few instructions
        self._asked = 0  # guarded by: _counting
        self._done = 0  # guarded by: _working; the calls up to this one are served
        self._error: OSError | None = None  # likewise; what came of the last time

    @property
    def waiting(self) -> int:
        """Return how many calls the next time will serve."""
        return self._asked - self._done

    def run(self) -> None:
        """Do the work, or wait until another thread has done it for this call. Blocks.

        Raises:
            OSError: The work did.
        """
        with self._counting:
            self._asked += 1
            number = self._asked
        with self._working:
            if self._done < number:
                with self._counting:
                    self._done = self._asked
                self._error = None
                try:
                    self._work()
                except OSError as error:
                    self._error = error
            if self._error is not None:
                raise self._error
