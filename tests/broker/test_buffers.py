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
    assert buffers.in_flight_bytes == 300_000


def test_frames_over_the_limit_wait_until_others_are_served() -> None:
    """``queued.max.request.bytes`` counts announced sizes; who waits is called back in turn."""
    buffers = Buffers(limit=1_000_000)
    resumed: list[str] = []
    first = buffers.take(800_000, lambda: None)
    assert first is not None
    assert buffers.take(300_000, lambda: resumed.append("second")) is None
    assert buffers.take(900_000, lambda: resumed.append("third")) is None
    assert buffers.is_contended
    buffers.give(first)

    assert resumed == ["second", "third"]
    assert buffers.in_flight_bytes == 0


def test_one_frame_larger_than_the_limit_is_served_alone() -> None:
    """A limit below ``socket.request.max.bytes`` slows large frames down but refuses none."""
    assert Buffers(limit=1_000).take(5_000_000, lambda: None) is not None
