"""What every request passes: the compiled form and the plain one do the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import dispatch_kernels
from broker.dispatch_kernels import BOUNDS_SECONDS
from protocol.errors import ProtocolError
from protocol.records.choosing import load_uncompiled
from tests.support.connections import frame

PLAIN = load_uncompiled("broker._dispatch_kernels")
BOTH = pytest.mark.parametrize("kernel", [dispatch_kernels, PLAIN], ids=["chosen", "plain"])


def serve(kernel: Any, data: bytes, filled: int) -> tuple[Any, list[bytes], list[bytes]]:
    """Return what became of a buffer, the answers, and the frames that were served."""
    seen: list[bytes] = []

    class Gate(kernel.Gate):  # type: ignore[misc]
        def dispatch(self, _connection: Any, buffer: memoryview, start: int, end: int) -> Any:
            body = bytes(buffer[start:end])
            seen.append(body)
            if body[0] == 0:
                raise ProtocolError("refused")
            if body[0] == 1:
                return None
            return [body] if body[0] == 2 else body

    answers: list[bytes] = []
    try:
        served = Gate({}, None).serve(None, memoryview(bytearray(data)), filled, 99, answers)
    except ProtocolError as error:
        served = str(error)
    return served, answers, seen


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=90), st.integers(0, 9), st.binary())
def test_both_forms_serve_the_same_frames(bodies: list[bytes], cut: int, tail: bytes) -> None:
    """Answers, what is left, and where it ended early."""
    data = b"".join(map(frame, bodies)) + tail
    filled = max(0, len(data) - cut)

    assert serve(dispatch_kernels, data, filled) == serve(PLAIN, data, filled)


@BOTH
def test_one_turn_serves_so_many_frames(kernel: Any) -> None:
    """The rest waits until others had their turn."""
    data = frame(b"go") * 100

    (position, end, reply), answers, _ = serve(kernel, data, len(data))

    assert (position, end, reply) == (64 * 6, 65 * 6, b"go")
    assert len(answers) == 64


@BOTH
@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (BOUNDS_SECONDS[0], 0), (0.000_051, 1), (5.0, 15), (5.1, 16), (1e9, 16)],
)
def test_duration_falls_into_the_bucket_that_bounds_it(
    kernel: Any, seconds: float, bucket: int
) -> None:
    """A bound belongs to its own bucket, as Prometheus reads `le`; the last has no bound."""
    histogram = kernel.Histogram()

    histogram.observe(seconds)

    assert histogram.buckets.index(1) == bucket
    assert (histogram.count, histogram.seconds) == (1, seconds)


def test_bounds_rise() -> None:
    """The buckets are in order."""
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))
