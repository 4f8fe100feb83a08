"""Receive memory: what is pooled, what is capped, who waits."""

from broker.buffers import Buffers


def test_a_frame_gets_writable_room_of_its_size() -> None:
    """The view has exactly the announced size and can be stamped in place."""
    buffer = Buffers().take(200_000, lambda: None)

    assert buffer is not None
    assert len(buffer.view) == 200_000
    buffer.view[:3] = b"abc"
    assert bytes(buffer.view[:3]) == b"abc"


def test_memory_is_reused_after_it_was_given_back() -> None:
    """The pages of a served frame serve the next one."""
    buffers = Buffers()
    first = buffers.take(200_000, lambda: None)
    assert first is not None
    first.view[:3] = b"abc"
    buffers.give(first)
    second = buffers.take(300_000, lambda: None)

    assert second is not None
    assert bytes(second.view[:3]) == b"abc"
    assert second.received == 0


def test_only_what_has_arrived_counts() -> None:
    """A thousand frames of 100 MB that are announced keep nobody from beginning one."""
    buffers = Buffers(limit=1_000_000)

    assert all(buffers.take(100_000_000, lambda: None) for _ in range(1000))
    assert buffers.received_bytes == 0
    assert not buffers.is_contended


def test_frames_over_the_limit_wait_until_others_are_served() -> None:
    """``queued.max.request.bytes`` counts arrived bytes; who waits is called back in turn."""
    buffers = Buffers(limit=1_000_000)
    resumed: list[str] = []
    first, second = (buffers.take(800_000, lambda: None) for _ in range(2))
    assert first is not None
    assert second is not None
    buffers.note_received(first, 400_000)
    buffers.note_received(second, 700_000)
    assert buffers.take(300_000, lambda: resumed.append("third")) is None
    assert not buffers.may_receive(second, lambda: resumed.append("second"))
    assert buffers.is_contended
    buffers.give(first)

    assert resumed == ["third", "second"]
    assert buffers.received_bytes == 700_000
    assert buffers.may_receive(second, lambda: None)


def test_frame_that_began_first_is_received_over_the_limit() -> None:
    """A limit below ``socket.request.max.bytes`` slows large frames down but refuses none."""
    buffers = Buffers(limit=1_000)
    first, second = (buffers.take(5_000_000, lambda: None) for _ in range(2))
    assert first is not None
    assert second is not None
    for frame in (first, second):
        buffers.note_received(frame, 2_000)

    assert buffers.may_receive(first, lambda: None)
    assert not buffers.may_receive(second, lambda: None)
    buffers.give(first)
    assert buffers.may_receive(second, lambda: None)
