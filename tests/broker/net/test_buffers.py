"""Receive memory: what is pooled, what is capped, which client waits, which is closed for it."""

import asyncio
import errno
import os
from typing import Never

import pytest

from siltstone.broker.net import buffers
from siltstone.broker.net.buffers import Buffers, LargeBuffer
from siltstone.broker.net.unread import GRACE_SECONDS

MIB = 1 << 20


def refuse(_size: int) -> Never:
    """Stand in for `new_pages` of a system without memory."""
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


class Peer:
    """Stands in for a connection: it holds one frame and notes what is done to it."""

    def __init__(self, buffers: Buffers, resumed: list[str], name: str = "") -> None:
        self.buffers = buffers
        self.name = name
        self.received = 0
        self.is_its_turn = True
        self.is_closed = False
        self.frame: LargeBuffer | None = None
        self._resumed = resumed
        self._held = 0

    def begin(self, size: int) -> bool:
        """Ask for room for a frame; return whether there was some."""
        self.frame = self.buffers.take(size, self)
        return self.frame is not None

    def receive(self, size: int) -> None:
        """Have bytes arrive."""
        self.received += size
        self._held += size
        if self.frame is not None:
            self.frame.received += size
        self.buffers.hold(self, self._held)

    def finish(self) -> None:
        """Have what is held served."""
        if self.frame is not None:
            self.buffers.give(self.frame)
            self.frame = None
        self._held = 0
        self.buffers.hold(self, 0)

    def resume(self) -> None:
        """Note it."""
        self._resumed.append(self.name)

    def close(self, reason: str | None = None) -> None:
        """Give everything back."""
        assert reason
        self.is_closed = True
        self.finish()
        self.buffers.forget(self)


class Room:
    """Buffers and the peers that share them."""

    def __init__(self, limit: int = -1) -> None:
        self.buffers = Buffers(limit)
        self.resumed: list[str] = []

    def peer(self, name: str = "", *, size: int = 0, received: int = 0) -> Peer:
        """Return a peer that has begun a large frame, if ``size`` says so."""
        peer = Peer(self.buffers, self.resumed, name)
        if size:
            assert peer.begin(size)
        if received:
            peer.receive(received)
        return peer

    def judge(self, seconds: float) -> None:
        """Let time pass as the broker does, a second at a time."""
        for _ in range(round(seconds)):
            self.buffers.judge(1.0)


async def test_a_frame_gets_writable_room_of_its_size() -> None:
    """The view has exactly the announced size and can be stamped in place."""
    buffer = Room().peer(size=200_000).frame

    assert buffer is not None
    assert len(buffer.view) == 200_000
    buffer.view[:3] = b"abc"
    assert bytes(buffer.view[:3]) == b"abc"


async def test_memory_is_reused_after_it_was_given_back() -> None:
    """The pages of a served frame serve the next one."""
    room = Room()
    first = room.peer(size=200_000)
    assert first.frame is not None
    first.frame.view[:3] = b"abc"
    first.finish()
    second = room.peer(size=300_000).frame

    assert second is not None
    assert bytes(second.view[:3]) == b"abc"
    assert second.received == 0


async def test_a_frame_waits_while_the_system_has_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried again once a second, not in a loop that keeps the broker busy."""
    room = Room()
    peer = room.peer("late")
    new_pages = buffers.new_pages
    monkeypatch.setattr(buffers, "new_pages", refuse)

    assert not peer.begin(MIB)
    await asyncio.sleep(0)
    assert not room.resumed

    monkeypatch.setattr(buffers, "new_pages", new_pages)
    room.buffers.judge(1)
    await asyncio.sleep(0)
    assert room.resumed == ["late"]
    assert peer.begin(MIB)


async def test_a_closed_client_is_not_resumed_when_memory_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection may be another client's by then."""
    room = Room()
    peer = room.peer("gone")
    monkeypatch.setattr(buffers, "new_pages", refuse)
    assert not peer.begin(MIB)

    room.buffers.forget(peer)
    room.buffers.judge(1)
    await asyncio.sleep(0)

    assert not room.resumed


async def test_only_what_has_arrived_counts() -> None:
    """A thousand frames of 100 MB that are announced keep nobody from beginning one."""
    room = Room(limit=1_000_000)

    assert all(room.peer().begin(100_000_000) for _ in range(1000))
    assert room.buffers.received_bytes == 0


async def test_frames_over_the_limit_wait_until_others_are_served() -> None:
    """``queued.max.request.bytes`` counts arrived bytes; the waiting are called back in turn."""
    room = Room(limit=1_000_000)
    first = room.peer(size=800_000)
    second = room.peer("second", size=800_000)
    first.receive(400_000)
    second.receive(700_000)
    assert not room.peer("third").begin(300_000)
    assert second.frame is not None
    assert not room.buffers.may_receive(second.frame, second)
    first.finish()
    assert room.resumed == []
    await asyncio.sleep(0)

    assert room.resumed == ["third", "second"]
    assert room.buffers.received_bytes == 700_000
    assert room.buffers.may_receive(second.frame, second)


async def test_frame_that_began_first_is_received_over_the_limit() -> None:
    """A limit below ``socket.request.max.bytes`` slows large frames down but refuses none."""
    room = Room(limit=1_000)
    first, second = (room.peer(name, size=5_000_000) for name in ("first", "second"))
    for peer in (first, second):
        peer.receive(2_000)
    assert first.frame is not None
    assert second.frame is not None

    assert room.buffers.may_receive(first.frame, first)
    assert not room.buffers.may_receive(second.frame, second)
    first.finish()
    await asyncio.sleep(0)
    assert room.resumed == ["second"]
    assert room.buffers.may_receive(second.frame, second)


async def test_small_frames_that_are_not_whole_keep_no_large_one_from_beginning() -> None:
    """They count, but one large frame at a time always goes on."""
    room = Room(limit=MIB)
    for _ in range(20):
        room.peer(received=100_000)

    assert room.buffers.received_bytes == 2_000_000
    assert room.peer().begin(500_000)
    assert not room.peer().begin(500_000)


async def test_who_sends_too_slowly_is_closed_when_somebody_lacks_room() -> None:
    """Trickles for longer than the grace give up half of the room at once, to one that asks."""
    room = Room(limit=10 * MIB)
    hoarders = [room.peer(size=50 * MIB, received=2 * MIB) for _ in range(5)]
    for _ in range(round(GRACE_SECONDS) + 1):
        for each in hoarders:
            each.receive(1)
        room.judge(1)
    assert not any(each.is_closed for each in hoarders)

    assert room.peer().begin(MIB)
    assert [each.is_closed for each in hoarders] == [True, True, True, False, False]


async def test_a_slow_client_is_not_closed_while_nobody_waits() -> None:
    """Half of the limit may be held for an hour by one that sends a byte a minute."""
    room = Room(limit=10 * MIB)
    slow = room.peer(size=8 * MIB, received=5 * MIB)
    room.judge(3600)
    other = room.peer(size=MIB, received=MIB)
    other.finish()

    assert not slow.is_closed


async def test_who_waits_gets_room_when_the_grace_of_others_is_over() -> None:
    """A hoard that has just come holds the others up for the grace and no longer."""
    room = Room(limit=4 * MIB)
    hoarder = room.peer(size=50 * MIB, received=MIB)
    hoarder.receive(4 * MIB)
    room.judge(1)
    assert not room.peer("waiter").begin(MIB)
    room.judge(GRACE_SECONDS - 1)
    assert not hoarder.is_closed
    room.judge(1)
    await asyncio.sleep(0)

    assert hoarder.is_closed
    assert room.resumed == ["waiter"]


async def test_a_steady_client_is_not_closed_while_others_wait() -> None:
    """A frame of 1 MiB at 100 KiB/s, in bursts with pauses of two seconds, gets through."""
    room = Room(limit=3 * MIB)
    steady = room.peer(size=MIB, received=100_000)
    hoarders = [room.peer(size=50 * MIB, received=2 * MIB) for _ in range(2)]
    assert not room.peer("waiter").begin(MIB)
    for _ in range(4):
        room.judge(2)
        steady.receive(200_000)

    assert not steady.is_closed
    assert any(each.is_closed for each in hoarders)


async def test_a_client_that_waits_for_us_has_ten_times_the_grace() -> None:
    """Requests behind one that is parked, or without room, are not late by their own fault."""
    room = Room(limit=MIB)
    parked = room.peer(size=2 * MIB, received=MIB)
    parked.receive(MIB)
    room.judge(1)
    parked.is_its_turn = False
    assert not room.peer().begin(MIB)
    room.judge(10 * GRACE_SECONDS - 1)
    assert not parked.is_closed
    room.judge(2)

    assert parked.is_closed


async def test_halves_of_small_frames_are_bounded() -> None:
    """Beyond the limit and a quarter the slowest go at once; a quick client stays."""
    room = Room(limit=64 * MIB)
    quick = room.peer(received=100_000)
    old = [room.peer(received=127_000) for _ in range(300)]
    room.judge(1)
    quick.receive(20_000)
    room.judge(1)
    new = [room.peer(received=127_000) for _ in range(1000)]

    assert room.buffers.received_bytes <= 80 * MIB
    assert not quick.is_closed
    assert all(each.is_closed for each in old)
    assert not new[-1].is_closed


async def test_bytes_of_a_closed_client_are_not_counted() -> None:
    """Nor does it wait any more."""
    room = Room(limit=MIB)
    hoarder = room.peer(size=2 * MIB, received=2 * MIB)
    waiter = room.peer()
    assert not waiter.begin(MIB)
    for each in (hoarder, waiter):
        each.close("gone")
    await asyncio.sleep(0)

    assert room.buffers.received_bytes == 0
    assert room.resumed == []
