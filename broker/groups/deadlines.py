"""The deadlines of the members of a group whose members have epochs (KIP-848, KIP-932)."""

from collections.abc import Callable
from enum import Enum
from functools import partial

from siltstone.broker.coordination.timers import Timer, Timers


class Deadline(Enum):
    """The kinds of a member's deadlines; the value ends the log line "member … is fenced: it …"."""

    SESSION = "did not heartbeat within its session timeout"
    REBALANCE = "did not give up partitions within its rebalance timeout"
    JOIN = "did not rejoin within its rebalance timeout"
    SYNC = "did not sync within its rebalance timeout"


class Deadlines:
    """The deadlines of one group, by member and kind (loop only)."""

    __slots__ = ("_missed", "_running", "_timers")

    def __init__(self, timers: Timers, missed: Callable[[str, Deadline], None]) -> None:
        self._timers = timers
        self._missed = missed
        self._running: dict[tuple[str, Deadline], Timer] = {}

    def start(self, member_id: str, deadline: Deadline, after_ms: float) -> None:
        """Set a member's deadline to ``after_ms`` from now."""
        key = member_id, deadline
        timer = self._running.get(key)
        if timer is None:
            timer = self._running[key] = Timer(self._timers)
            timer.start(after_ms, partial(self._miss, *key))
        else:
            timer.move(after_ms)

    def start_if_idle(self, member_id: str, deadline: Deadline, after_ms: float) -> None:
        """Set a member's deadline to ``after_ms`` from now, unless it is running."""
        timer = self._running.get((member_id, deadline))
        if timer is None or not timer.is_running:
            self.start(member_id, deadline, after_ms)

    def cancel(self, member_id: str, *kinds: Deadline) -> None:
        """Cancel a member's deadlines of these kinds, or all of them if no kind is named."""
        for deadline in kinds or Deadline:
            timer = self._running.pop((member_id, deadline), None)
            if timer is not None:
                timer.cancel()

    def _miss(self, member_id: str, deadline: Deadline) -> None:
        del self._running[member_id, deadline]
        self._missed(member_id, deadline)

    def close(self) -> None:
        """Cancel all deadlines and drop the reference to the group, which is deleted."""
        for timer in self._running.values():
            timer.cancel()
        self._running.clear()
        self._missed = _nobody


def _nobody(member_id: str, deadline: Deadline) -> None:
    """Do nothing when a deadline is missed."""
    del member_id, deadline
