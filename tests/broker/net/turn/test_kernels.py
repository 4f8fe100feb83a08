"""A connection's turn: what it receives, serves, sends and leaves to others."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.broker.net.gate import Gate
from siltstone.broker.net.turn import turn as kernel
from siltstone.protocol.errors import ProtocolError
from siltstone.storage.log.end import Appends
from tests.support.connections import frame

LIMIT = 99


class Loop:
    """A clock that stands still, and what was put off until the next turn."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self._ends: list[Any] = []

    def time(self) -> float:
        """Return seconds."""
        return 7.5

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        """Note what comes next; the end of a round comes when it is asked for."""
        if callback.__name__ == "resume":
            self._events.append(("soon", callback.__name__))
        else:
            self._ends.append((callback, arguments))

    def end_rounds(self) -> None:
        """Do what was put off."""
        ends, self._ends = self._ends, []
        for callback, arguments in ends:
            callback(*arguments)


class ScriptedGate(Gate):
    """Answers as the first byte of a body says."""

    def __init__(self) -> None:
        super().__init__({}, [], None, None)  # type: ignore[arg-type]

    def dispatch(
        self,
        _connection: Any,
        buffer: memoryview,
        start: int,
        end: int,
        may_wait: bool = False,  # as its base
    ) -> Any:
        """Refuse, say nothing, answer with a range, answer later, or send the body back."""
        body = bytes(buffer[start:end])
        if body[0] == 0:
            raise ProtocolError("refused")
        return {1: None, 2: [body], 3: iter(body)}.get(body[0], body)


def scripted_channel(arriving: bytes | None, events: list[Any]) -> Any:
    """Return a transport to which this arrives at once, and which notes what it is to send."""

    class Channel(kernel.Transport):
        def receive(self, buffer: memoryview, start: int, end: int) -> int:
            events.append(("receive", start, end))
            if arriving is None:
                return -1
            buffer[start : start + len(arriving)] = arriving
            return len(arriving)

        def send_bytes(self, whole: bytes) -> None:
            events.append(("bytes", whole))

        def send(self, parts: Any) -> None:
            events.append(("parts", parts))

    return Channel(-1, events.append)


def scripted_turn(channel: Any, events: list[Any], loop_round: Any) -> Any:
    """Return a turn that notes what it leaves to the connection."""

    class Turn(kernel.Turn):
        def _go_on(self) -> None:
            events.append("go on")

        def _keep(self, rest: memoryview, frame_size: int) -> None:
            events.append(("keep", bytes(rest), frame_size))
            self._tail = bytes(rest)

        def _count(self) -> None:
            events.append(("count", len(self._tail)))

        def _await(self, reply: Any) -> None:
            events.append(("await", bytes(reply)))

        def resume(self) -> None:
            raise NotImplementedError

        def _refuse(self, error: Exception) -> None:
            events.append(("refuse", str(error)))

        def close(self, reason: str | None = None) -> None:
            events.append(("close", reason))

    loop: Any = Loop(events)
    return Turn(loop, channel, ScriptedGate(), loop_round, LIMIT)


def turn(arriving: bytes | None, tail: bytes = b"", **state: Any) -> tuple[list[Any], bytes, float]:
    """Return what one turn did, the bytes it kept, and when the connection was last active."""
    events: list[Any] = []
    channel = scripted_channel(arriving, events)
    channel.unsent.extend(state.pop("unsent", ()))
    loop: Any = Loop(events)
    it = scripted_turn(channel, events, kernel.LoopRound(loop, Appends()))
    it._tail = tail
    for name, value in state.items():
        setattr(it, name, value)
    (it._receive if tail else it.on_readable)()
    loop.end_rounds()
    return events, it._tail, it.last_active


BODIES = st.lists(st.binary(min_size=1, max_size=9), max_size=90)


@given(BODIES, st.integers(0, 9), st.binary(), st.integers(0, 20))
def test_every_whole_frame_is_served_in_its_turn(
    bodies: list[bytes], cut: int, more: bytes, kept: int
) -> None:
    """Up to one that waits, has a range or is refused; some bytes had come already."""
    data = b"".join(map(frame, bodies)) + more
    data = data[: max(0, len(data) - cut)]
    answers, last = serve(data)

    try:
        events = turn(data[kept:] or None, data[:kept])[0]
    except ProtocolError:
        assert last == ["refuse"]
        return

    if data[kept:]:
        shown = [event for event in events if event[0] in {"bytes", "parts", "await", "refuse"}]
        parts = [said if kind == "parts" else [said] for kind, said in shown if kind[-1] == "s"]
        assert b"".join(part for said in parts for part in said) == b"".join(answers)
        assert [kind for kind, _ in shown if kind in {"await", "refuse"}] == last


def serve(data: bytes) -> tuple[list[bytes], list[str]]:
    """Return the answers of one turn, and what ends it."""
    answers: list[bytes] = []
    at = 0
    for _ in range(kernel.FRAMES_PER_TURN):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if len(data) - at >= 4 and not 0 < size <= LIMIT:
            return answers, ["refuse"]
        if len(data) - at < 4 + size or len(data) - at < 4:
            break
        body = data[at + 4 : at + 4 + size]
        at += 4 + size
        if body[0] == 0:
            return answers, ["refuse"]
        if body[0] == 3:
            return answers, ["await"]
        if body[0] > 1:
            answers.append(body)
        if body[0] == 2:  # a range ends a turn
            break
    return answers, []


def test_a_turn_receives_serves_and_sends() -> None:
    """Two frames have arrived: one receive and one send."""
    assert turn(frame(b"hello ") + frame(b"world")) == (
        [("receive", 0, SHARED_BYTES), ("bytes", b"hello world")],
        b"",
        7.5,
    )


def test_what_has_arrived_goes_behind_what_was_kept() -> None:
    """The rest of a frame; what came before it is not lost when nothing arrives."""
    begun, rest = frame(b"hello")[:6], frame(b"hello")[6:]

    assert turn(rest, begun)[0] == [("receive", 6, SHARED_BYTES), ("bytes", b"hello")]
    assert turn(None, begun)[:2] == ([("receive", 6, SHARED_BYTES)], begun)


def test_the_end_of_the_stream_closes() -> None:
    """And nothing to receive does not."""
    assert turn(b"")[0][1:] == [("close", None)]
    assert turn(None)[0][1:] == []


@pytest.mark.parametrize(
    "state",
    [{"_task": object()}, {"_frame": object()}, {"_expects_large": True}, {"unsent": [b"x"]}],
)
def test_everything_else_goes_the_general_way(state: dict[str, Any]) -> None:
    """An answer that is owed or has not left, and a large frame: nothing is received here."""
    counted = [("count", 0)] if "_frame" in state else []

    assert turn(frame(b"hello"), **state) == (["go on", *counted], b"", 7.5)


def test_one_turn_serves_so_many_frames() -> None:
    """The rest waits until others had their turn."""
    events, tail, _ = turn(frame(b"go") * 100)

    assert events[1:] == [
        ("keep", frame(b"go") * 36, 6),
        ("soon", "resume"),
        ("count", len(tail)),
        ("bytes", b"go" * 64),
    ]
    assert tail == frame(b"go") * 36


def test_ranges_and_waiting_end_a_turn() -> None:
    """Answers before a range leave with it, those before a wait at once; the rest is kept."""
    ranges = turn(frame(b"go") + frame(b"\2") + frame(b"on"))
    waits = turn(frame(b"go") + frame(b"\3") + frame(b"on"))

    kept = frame(b"on")

    assert ranges[0][1:] == [
        ("keep", kept, 0),
        ("parts", [b"go", b"\2"]),
        ("soon", "resume"),
        ("count", len(kept)),
    ]
    assert ranges[1] == kept
    assert waits[0][1:] == [
        ("keep", kept, 0),
        ("bytes", b"go"),
        ("await", b"\3"),
        ("count", len(kept)),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"), [(frame(b"\0"), "refused"), ((LIMIT + 1).to_bytes(4, "big"), "a frame of")]
)
def test_a_refusal_leaves_earlier_answers_their_way(bad: bytes, reason: str) -> None:
    """They are sent first."""
    sent, refused = turn(frame(b"go") + bad)[0][1:]

    assert sent == ("bytes", b"go")
    assert refused[0] == "refuse"
    assert reason in refused[1]


def round_of(count: int) -> tuple[list[Any], Any, list[Any]]:
    """Return what happens to turns in a round, its loop, and the turns; each has a frame to serve.

    Their answers are their numbers.
    """
    events: list[Any] = []
    loop: Any = Loop(events)
    loop_round = kernel.LoopRound(loop, Appends())
    turns = []
    for number in range(4, 4 + count):
        channel = scripted_channel(frame(bytes([number])), events)
        turns.append(scripted_turn(channel, events, loop_round))
    return events, loop, turns


def sent(events: list[Any]) -> list[Any]:
    """Return what left, and forget what happened until now."""
    what = [each[1] for each in events if each[0] in {"bytes", "parts"}]
    events.clear()
    return what


def test_answers_of_a_round_leave_at_its_end() -> None:
    """One behind the other, in the order of the turns."""
    events, loop, turns = round_of(3)
    for each in turns:
        each.on_readable()

    assert sent(events) == []
    loop.end_rounds()
    assert sent(events) == [b"\4", b"\5", b"\6"]


def test_a_round_of_many_ends_in_between() -> None:
    """So that the first need not wait for all."""
    events, loop, turns = round_of(kernel.TURNS_PER_ROUND + 1)
    for each in turns:
        each.on_readable()

    assert len(sent(events)) == kernel.TURNS_PER_ROUND
    loop.end_rounds()
    assert len(sent(events)) == 1


def test_who_is_alone_waits_for_nobody() -> None:
    """After a round of one; now and then it is asked whether that is still so."""
    events, loop, [only, other] = round_of(2)
    waited = []
    for _ in range(2 * (kernel.ALONE + 1)):
        only.on_readable()
        waited.append(sent(events) == [])
        loop.end_rounds()
        events.clear()

    assert waited == [True, *[False] * kernel.ALONE] * 2
    only.on_readable()
    other.on_readable()
    loop.end_rounds()
    assert len(sent(events)) == 2
    only.on_readable()
    assert sent(events) == []


def test_what_cannot_wait_leaves_behind_what_is_owed() -> None:
    """A range, as the second answer of a connection in a round."""
    events, loop, [first, second] = round_of(2)
    second.on_readable()
    first.on_readable()
    first.owe([b"more"])
    first._send([b"range"])

    assert sent(events) == [b"\5", b"\4more", [b"range"]]
    loop.end_rounds()
    assert sent(events) == []


def test_a_fault_of_one_is_none_of_the_others() -> None:
    """They are answered all the same."""
    events, loop, turns = round_of(3)
    for each in turns:
        each.on_readable()
    turns[0]._channel.send_bytes = None  # a fault

    loop.end_rounds()
    assert [each for each, *_ in events if each == "refuse"] == ["refuse"]
    assert sent(events) == [b"\5", b"\6"]


def test_a_refusal_that_fails_is_none_of_the_others() -> None:
    """They are answered by the next callback, and the fault goes to the loop."""
    events, loop, turns = round_of(3)
    for each in turns:
        each.on_readable()
    turns[0]._channel.send_bytes = None  # a fault, and another one behind it
    turns[0]._refuse = None

    with pytest.raises(TypeError):
        loop.end_rounds()
    loop.end_rounds()
    assert sent(events) == [b"\5", b"\6"]


def test_a_closed_connection_sends_nothing() -> None:
    """Its answers go nowhere."""
    assert turn(frame(b"go"), is_closed=True)[0][1:] == []


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connected sockets that do not block: ours and the client's."""
    ours, client = socket.socketpair()
    for each in (ours, client):
        each.setblocking(False)
    yield ours, client
    ours.close()
    client.close()


Pair = tuple[socket.socket, socket.socket]


def open_channel(fileno: int) -> tuple[Any, list[Any]]:
    """Return a transport over a descriptor, and what it asked of the class above it."""
    asked: list[Any] = []

    class Channel(kernel.Transport):
        def send(self, parts: Any) -> None:
            asked.append(parts)

        def _watch(self) -> None:
            asked.append("watch")

    return Channel(fileno, asked.append), asked


@pytest.mark.parametrize("size", [100, SHARED_BYTES + 100], ids=["brief", "long"])
def test_receiving_fills_the_room_that_is_given(pair: Pair, size: int) -> None:
    """Not a byte beside it, and never beyond the buffer's end."""
    channel, _ = open_channel(pair[0].fileno())
    buffer = bytearray(size)
    pair[1].send(b"abcdefgh")

    assert channel.receive(memoryview(buffer), 10, 13) == 3
    assert channel.receive(memoryview(buffer), size - 2, size + 10) == 2
    assert channel.receive(memoryview(buffer), 20, size) == 3
    assert [buffer[9:14], buffer[size - 2 :], buffer[20:24]] == [b"\0abc\0", b"de", b"fgh\0"]


def test_nothing_there_is_not_the_end(pair: Pair) -> None:
    """-1, 0 when the client has gone, and 0 for a socket that is closed."""
    channel, _ = open_channel(pair[0].fileno())
    room = memoryview(bytearray(9))
    empty = channel.receive(room, 0, 9)
    pair[1].close()
    ended = channel.receive(room, 0, 9)
    channel.fileno = -1

    assert (empty, ended, channel.receive(room, 0, 9)) == (-1, 0, 0)


@pytest.mark.parametrize("size", [9, 8 << 20])
def test_bytes_that_do_not_leave_are_queued(pair: Pair, size: int) -> None:
    """Bytes that the socket did not take are kept; what comes next waits behind them."""
    channel, asked = open_channel(pair[0].fileno())
    whole = (b"0123456789abcde" * (size // 15 + 1))[:size]
    channel.send_bytes(whole)
    left = b"".join(channel.unsent)
    received = b""
    while len(received) + len(left) < size:
        received += pair[1].recv(size)

    assert received + left == whole
    assert asked == (["watch"] if left else [])
    assert bool(left) == (size > 9)


def test_a_full_socket_takes_nothing(pair: Pair) -> None:
    """All of it is queued, and the next piece goes behind it."""
    with suppress(BlockingIOError):
        while True:
            pair[0].send(bytes(1 << 16))
    channel, asked = open_channel(pair[0].fileno())
    channel.send_bytes(b"first")
    channel.send_bytes(b"second")

    assert list(channel.unsent) == [b"first"]
    assert asked == ["watch", (b"second",)]


@pytest.mark.parametrize("size", [5, SHARED_BYTES + 1])
def test_a_client_that_has_gone_is_lost(pair: Pair, size: int) -> None:
    """With the reason, and without a signal; nothing is queued for it."""
    channel, asked = open_channel(pair[0].fileno())
    pair[1].close()
    channel.send_bytes(bytes(size))

    assert (asked, list(channel.unsent)) == (["Broken pipe"], [])
