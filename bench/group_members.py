"""Members of one group that do what clients do, as fast as answers come: join, sync, beat."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from bench.connection import SECONDS, Connection
from bench.group_requests import leave
from bench.member_frames import heartbeat_frame, join_frame, read_error, read_joined, sync_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MEMBER_ID_REQUIRED = ErrorCode.member_id_required.value
_REBALANCE_IN_PROGRESS = ErrorCode.rebalance_in_progress.value


class Member:
    """One member on a connection of its own, with one request in flight."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.connection = Connection(port)
        self.member_id = ""
        self.generation = -1
        self.size = 0  # members, if it leads
        self.is_stable = False
        self._group = group
        self._topic = topic
        self._beat = b""
        self._act: Callable[[bytes], None] = self._joined

    def join(self) -> None:
        """Send a JoinGroup."""
        self.is_stable = False
        self._act = self._joined
        self.connection.send(join_frame(self._group, self._topic, self.member_id))

    def act(self) -> None:
        """Go on with the answer that has come, if it is all there."""
        body = self.connection.receive()
        if body is not None:
            self._act(body)

    def _joined(self, body: bytes) -> None:
        error = read_error(body)
        if error != _MEMBER_ID_REQUIRED:
            _check(error)
        self.generation, self.member_id, members = read_joined(body)
        if error:
            self.join()
            return
        self.size = len(members)
        self._act = self._synced
        self.connection.send(sync_frame(self._group, self.member_id, self.generation, members))

    def _synced(self, body: bytes) -> None:
        error = read_error(body)
        if error == _REBALANCE_IN_PROGRESS:
            self.join()
            return
        _check(error)
        self.is_stable = True
        self._act = self._beaten
        self._beat = heartbeat_frame(self._group, self.member_id, self.generation)
        self.connection.send(self._beat)

    def _beaten(self, body: bytes) -> None:
        error = read_error(body)
        if error == _REBALANCE_IN_PROGRESS:
            self.join()
            return
        _check(error)
        self.connection.send(self._beat)


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"a member was refused: {ErrorCode(error).name}")


def measure_rebalances(port: int, group: str, topic: str, count: int) -> tuple[float, float]:
    """Return how long members take to be stable, in ms: after they start, and after one left.

    The group is stable when all have an assignment of one generation, whose leader has seen all.
    """
    members = [Member(port, group, topic) for _ in range(count)]
    try:
        began = time.perf_counter()
        for member in members:
            member.join()
        started = _settle(members) - began
        gone = members.pop()
        gone.connection.close()
        asking = Connection(port)
        began = time.perf_counter()
        _check(asking.ask(leave(group, gone.member_id)).error_code.value)
        settled = _settle(members) - began
        asking.close()
    finally:
        for member in members:
            member.connection.close()
    return started * 1000, settled * 1000


def _settle(members: Sequence[Member]) -> float:
    """Have all act until the group is stable; return when it was."""
    poll = select.epoll()
    for member in members:
        poll.register(member.connection, select.EPOLLIN)
    by_number = {member.connection.fileno(): member for member in members}
    end = time.perf_counter() + SECONDS
    while (now := time.perf_counter()) < end:
        if _is_settled(members):
            return now
        for number, _ in poll.poll(1):
            by_number[number].act()
    states = sorted({(member.generation, member.is_stable) for member in members})
    raise TimeoutError(f"the group is not stable after {SECONDS} s: {states}")


def _is_settled(members: Sequence[Member]) -> bool:
    return (
        all(member.is_stable for member in members)
        and len({member.generation for member in members}) == 1
        and sum(member.size for member in members) == len(members)
    )
