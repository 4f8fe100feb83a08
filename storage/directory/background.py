"""The ``housekeeping`` thread: file work that the event loop has decided and must not wait for.

It fsyncs rolled segments, renames and unlinks old files, writes checkpoints and starts write-back.
Queued work may wait in the kernel but must compute almost nothing: a thread that holds the GIL
stalls the loop.
"""

import logging
from collections.abc import Callable

from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.parts import HasFileno
from siltstone.storage import files, threads

_logger = logging.getLogger(__name__)


class Background:
    """One daemon thread that works off a queue in order.

    Work that fails is counted, its traceback is logged once per kind of work, and the thread goes
    on with the next piece. ``error`` is set and ``alive`` is false only if the thread itself ended;
    readiness then fails. A crash may lose queued work: recovery or the next start repeats it.
    """

    def __init__(self) -> None:
        self.failures = 0  # written by the thread, read by any thread
        self.error: BaseException | None = None  # likewise
        self._reported: set[str] = set()  # used by the thread only
        self._queue: threads.Queue[tuple[str, Callable[[], object]] | None] = threads.Queue()
        self._thread = threads.new_thread("housekeeping", self._run)

    def start(self) -> None:
        """Start the thread; work that was submitted before waits until then."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    @property
    def pending(self) -> int:
        """Return the approximate number of pieces of work that wait."""
        return self._queue.qsize()

    def submit(self, what: str, work: Callable[[], object]) -> None:
        """Queue work; ``what`` names its kind in the log (``flush``, ``unlink``)."""
        self._queue.put((what, work))

    def write_back(self, file: HasFileno, position: int, size: int) -> None:
        """Queue the start of write-back of a range; it does not wait for the disk."""
        self._queue.put(("write back", lambda: files.start_write_back(file, position, size)))

    def drain(self) -> None:
        """Wait until all that was submitted before this call is done. Blocks."""
        done = threads.Event()
        self.submit("drain", done.set)
        while self.alive and not done.wait(0.2):
            continue

    def close(self, timeout: float = 30.0) -> bool:
        """Do all queued work and end the thread; true if it ended in ``timeout`` seconds. Blocks.

        Idempotent. If the thread was never started, the caller does the queued work here.
        """
        self._queue.put(None)
        if self._thread.ident is None:
            self._run()
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._work(*item)
        except BaseException as error:
            self.error = error
            _logger.exception("housekeeping thread died: restart the broker")
            raise

    def _work(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except KafkaStorageError:
            self.failures += 1  # the directory is offline; that was logged
        except Exception:
            self.failures += 1
            if what not in self._reported:
                self._reported.add(what)
                _logger.exception(
                    "background work failed; further failures of its kind are only counted work=%r",
                    what,
                )
