"""The process that makes passes where the kernels are not compiled.

``python -m siltstone.cleaner.threads.helper`` starts it. It reads orders from standard input and
answers on standard output. It renames nothing, has no `Log`, and ends when its parent does. Its
priority is that of the cleaner thread that starts it.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import IO

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.one_pass.cleaner import Cleaner
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
from siltstone.storage.clock import Clock
from siltstone.storage.segment.readable import ReadableSegment


class _PassClock(Clock):
    """The parent's time of day, and this process's steady clock."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        """Return the pass's "now"."""
        return self.now


class Helper:
    """The orders of the parent, one pass after the other."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]) -> None:
        self._orders = orders
        self._answers = answers
        self._clock = _PassClock()
        self._throttle = Throttle(self._clock)
        self._told = 0  # bytes reported to the parent
        self._made: tuple[CleanerSettings, Cleaner] | None = None  # for the last order

    def run(self) -> None:
        """Work off orders until the parent ends."""
        with suppress(EOFError, BrokenPipeError):
            while True:
                send(self._answers, self._work(receive(self._orders)))

    def _work(self, order: Order) -> Answer | Failed:
        self._clock.now = order.now_ms
        cleaner = self._ready(order.settings)
        try:
            still_wanted = partial(self._still_wanted, cleaner)
            if order.is_dry_run:
                return Answer(cleaner.dry_run(order.log(), still_wanted))
            return Answer(cleaner.clean(order.log(), self._replace, still_wanted))
        except Exception as error:  # noqa: BLE001  # the parent decides what becomes of it
            return Failed.of(error)

    def _ready(self, settings: CleanerSettings) -> Cleaner:
        if self._made is not None and self._made[0] == settings:
            return self._made[1]
        cleaner = Cleaner(
            clock=self._clock,
            throttle=self._throttle,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes,
        )
        self._made = settings, cleaner
        return cleaner

    def _still_wanted(self, cleaner: Cleaner) -> None:
        """Report the bytes to the parent, which throttles, and end if it asks for that."""
        total = self._throttle.total_bytes
        send(self._answers, Reading(total - self._told, cleaner.progress))
        self._told = total
        if not isinstance(receive(self._orders), Done):
            raise CleaningAborted("the broker does not want it any more")

    def _replace(self, new: Sequence[ReadableSegment], old: Sequence[ReadableSegment]) -> None:
        send(
            self._answers,
            Replace(
                tuple(each.base_offset for each in new), tuple(each.base_offset for each in old)
            ),
        )
        answer = receive(self._orders)
        if isinstance(answer, Failed):
            raise answer.error()


def main() -> int:
    """Serve the parent."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed must not become an answer
    Helper(sys.stdin.buffer, answers).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
