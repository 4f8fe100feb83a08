"""Answers that clients do not take have a limit, and the slowest go first."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.broker.net.unread import Unread
from siltstone.protocol.parts import FileSlice

LIMIT = 10_000


class Peer:
    """A client that takes what the test says."""

    def __init__(self, room: "Room", size: int, parts: int = 1) -> None:
        self.unsent: deque[bytes | memoryview | FileSlice] = deque(
            bytes(size // parts) for _ in range(parts)
        )
        self.reason: str | None = None
        self._room = room
        room.unread.hold(self)

    def take(self, size: int) -> None:
        """Have that much of the first part leave."""
        rest = memoryview(self.unsent[0])[size:]  # type: ignore[arg-type]  # no range
        if rest:
            self.unsent[0] = rest
        else:
            self.unsent.popleft()

    def close(self, reason: str | None = None) -> None:
        """Note why."""
        self.reason = reason
        self.unsent.clear()
        self._room.unread.forget(self)


class Room:
    """The answers of some clients."""

    def __init__(self) -> None:
        self.closed_count = 0
        self.unread = Unread(lambda: LIMIT, self._count)

    def _count(self) -> None:
        self.closed_count += 1

    def peer(self, size: int, parts: int = 1) -> Peer:
        """Return a client whose answers of that size have not left."""
        return Peer(self, size, parts)


@pytest.fixture
def room() -> Room:
    """No client has come yet."""
    return Room()


def test_what_is_kept_is_counted_until_it_is_taken(room: Room) -> None:
    """A part counts as a whole as long as a byte of it is left: that is how it is in memory."""
    peer = room.peer(4_000)
    peer.take(3_999)
    before = room.unread.size
    room.unread.forget(peer)

    assert before >= 4_000
    assert room.unread.size == 0


def test_ranges_of_files_are_not_in_memory(room: Room) -> None:
    """A client that does not read what it fetches costs what says where that is."""
    peer = room.peer(0)
    with Path("/dev/null").open("rb") as file:
        peer.unsent.append(FileSlice(file, 0, 1 << 30))
        room.unread.hold(peer)

    assert room.unread.size < 1_000


def test_the_slowest_goes(room: Room) -> None:
    """A client that reads stays, one that does not makes room for others."""
    idle, slow, quick = (room.peer(3_000) for _ in range(3))
    for _ in range(3):
        quick.take(900)
        slow.take(10)
        room.unread.judge(1.0)
    last = room.peer(2_000)

    assert [each.reason is None for each in (idle, slow, quick, last)] == [False, True, True, True]
    assert room.closed_count == 1
    assert idle.reason is not None
    assert "queued.max.response.bytes" in idle.reason


@pytest.mark.parametrize("take", [lambda peer: peer.take(300), lambda peer: peer.take(100)])
def test_parts_that_leave_count_as_progress(room: Room, take: Callable[[Peer], None]) -> None:
    """Whole ones and pieces of one."""
    idle, steady = room.peer(3_000, parts=10), room.peer(3_000, parts=10)
    for _ in range(2):
        room.unread.judge(1.0)
        take(steady)
    room.unread.judge(1.0)
    room.peer(3_000)

    assert (idle.reason is None, steady.reason is None) == (False, True)


def test_one_answer_alone_may_be_larger(room: Room) -> None:
    """A client that asks for more than the limit gets it, and no other keeps anything meanwhile."""
    others = [room.peer(100) for _ in range(3)]
    large = room.peer(100_000)

    assert large.reason is None
    assert all(each.reason for each in others)
