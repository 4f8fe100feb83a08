"""A worker whose passes are made by a process of its own (`cleaner.threads.helper`)."""

import logging
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import PassResult, Prediction, Progress
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.helper_messages import (
    Answer,
    Done,
    Failed,
    Order,
    Reading,
    Replace,
    receive,
    send,
)
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from siltstone.cleaner.one_pass.cleaner import Replace as ReplaceSegments

_logger = logging.getLogger(__name__)

_POLL_MS = 200


class HelperProcess:
    """One process for one cleaner thread, started by the first pass; its chunks are throttled here.

    A pass that is no longer wanted ends at once: the process is killed, its unfinished files are
    removed, and the next pass starts another.
    """

    def __init__(self, settings: CleanerSettings, clock: Clock, throttle: Throttle) -> None:
        self.progress: Progress | None = None
        self._settings = settings
        self._clock = clock
        self._throttle = throttle
        self.process: subprocess.Popen[bytes] | None = None

    def clean(
        self, log: LogToClean, replace: "ReplaceSegments", still_wanted: Callable[[], None]
    ) -> PassResult:
        """Clean a log, as `Cleaner.clean` does. Blocks."""
        result = self._work(log, replace, still_wanted, is_dry_run=False)
        if not isinstance(result, PassResult):
            raise TypeError(f"the helper process answered {result!r} to a pass")
        return result

    def dry_run(self, log: LogToClean, still_wanted: Callable[[], None]) -> Prediction:
        """Predict a pass, as `Cleaner.dry_run` does. Blocks."""
        result = self._work(log, None, still_wanted, is_dry_run=True)
        if not isinstance(result, Prediction):
            raise TypeError(f"the helper process answered {result!r} to a dry run")
        return result

    def close(self) -> None:
        """End the process. Idempotent."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()

    def _work(
        self,
        log: LogToClean,
        replace: "ReplaceSegments | None",
        still_wanted: Callable[[], None],
        *,
        is_dry_run: bool,
    ) -> PassResult | Prediction:
        order = Order.of(log, self._settings, self._clock.now_ms(), is_dry_run=is_dry_run)
        try:
            orders, answers = self._pipes()
            send(orders, order)
            while True:
                message = self._wait_for(answers, still_wanted)
                if isinstance(message, Answer):
                    return message.result
                if isinstance(message, Failed):
                    raise message.error()
                send(orders, self._react(message, log, replace, still_wanted))
        except (CleaningAborted, EOFError, BrokenPipeError) as error:
            self.close()
            remove_unfinished(log)
            if isinstance(error, CleaningAborted):
                raise
            raise RuntimeError(
                "the cleaner's helper process has ended by itself; its output has the reason"
            ) from error
        finally:
            self.progress = None

    def _react(
        self,
        message: Any,
        log: LogToClean,
        replace: "ReplaceSegments | None",
        still_wanted: Callable[[], None],
    ) -> Done | Failed:
        """Do what a message of the helper asks for."""
        if isinstance(message, Reading):
            self.progress = message.progress
            still_wanted()
            self._throttle.add(message.size, still_wanted)
        elif isinstance(message, Replace) and replace is not None:
            still_wanted()
            try:
                replace(*self._segments(log, message))
            except Exception as error:  # noqa: BLE001  # the helper has to clear up first
                return Failed.of(error)
        return Done()

    def _segments(
        self, log: LogToClean, message: Replace
    ) -> tuple[Sequence[LogSegment], Sequence[ReadableSegment]]:
        """Return the segments of a message: new ones opened here, old ones from the log."""
        now_ms = self._clock.now_ms()
        new = [
            LogSegment.load(log.path, base, log.config, now_ms=now_ms, suffix=files.CLEANED)
            for base in message.new
        ]
        by_base = {each.base_offset: each for each in log.segments}
        return new, [by_base[base] for base in message.old]

    def _wait_for(self, answers: IO[bytes], still_wanted: Callable[[], None]) -> Any:
        """Return the next message; check often whether the pass is still wanted."""
        pipe = select.poll()  # select() takes no descriptor above 1,023
        pipe.register(answers, select.POLLIN)
        while not pipe.poll(_POLL_MS):
            still_wanted()
        return receive(answers)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        process = self.process
        if process is None or process.poll() is not None:
            self.close()
            process = self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "siltstone.cleaner.threads.helper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            _logger.info("cleaner helper process started pid=%d", process.pid)
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        return process.stdin, process.stdout


def remove_unfinished(log: LogToClean) -> None:
    """Remove the ``.cleaned`` files that a killed process has left in a partition's folder."""
    for path in list(log.path.glob(f"*{files.CLEANED}")):
        files.unlink(path)
