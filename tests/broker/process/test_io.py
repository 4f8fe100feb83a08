"""Work for the io threads where the system gives no thread."""

import threading

import pytest

from siltstone.broker.process.io import IoThreads
from tests.support.waiting import PATIENCE, equals, wait_until


@pytest.mark.parametrize("kind", ["io", "codec"])
async def test_without_a_thread_the_future_has_the_error(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A caller has taken a place in a line, or noted that it waits, and counts on the end."""
    io = IoThreads(1)
    run = io.run if kind == "io" else io.unpack
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _refuse)
        work = run(len, b"two")
    with pytest.raises(RuntimeError, match="can't start"):
        await work

    assert await run(len, b"three") == 5
    io.close()


@pytest.mark.parametrize("kind", ["io", "codec"])
async def test_a_call_that_was_refused_is_never_made(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A write of the catalogue would reach the disk later, over one that was acknowledged."""
    io = IoThreads(1)
    run = io.run if kind == "io" else io.unpack
    made: list[str] = []
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _refuse)
        work = run(made.append, "refused")
    with pytest.raises(RuntimeError, match="can't start"):
        await work
    await run(made.append, "accepted")

    assert made == ["accepted"]
    io.close()


async def test_a_call_that_a_thread_takes_before_it_is_refused_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that was busy may take it from the line while no other one can be started."""
    io = IoThreads(2)
    made: list[str] = []
    may_end = threading.Event()
    busy = io.run(may_end.wait, PATIENCE)

    def refuse_late(_: threading.Thread) -> None:
        may_end.set()
        wait_until(line.qsize, "calls in the line", equals(0))
        raise RuntimeError("can't start new thread")

    line = io._pool._work_queue  # it alone tells that a thread has the call
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse_late)
        work = io.run(made.append, "refused")
    with pytest.raises(RuntimeError, match="can't start"):
        await work
    await busy
    await io.run(made.append, "accepted")

    assert made == ["accepted"]
    io.close()


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
