"""Work, such as an fsync, that several threads request at once and one thread does for all."""

from collections.abc import Callable

from siltstone.storage import threads


class JointWork:
    """Does work once for all the threads that request it while an earlier run goes on.

    A call never takes part in a run that has begun already, so the run that serves a call covers
    everything that happened before the call.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._working = threads.Lock()
        self._counting = threads.Lock()  # held for a few instructions
        self._asked = 0  # guarded by: _counting
        self._done = 0  # guarded by: _working; the calls up to this one are served
        self._error: OSError | None = None  # likewise; the error of the last run

    @property
    def waiting(self) -> int:
        """Return how many calls the next run will serve."""
        return self._asked - self._done

    def run(self) -> None:
        """Do the work, or wait until another thread has done it for this call. Blocks.

        Raises:
            OSError: The work raised it.
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
