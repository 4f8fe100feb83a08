"""Work for the io threads where the system gives no thread."""

import threading

import pytest

from siltstone.broker.process.io import IoThreads


@pytest.mark.parametrize("kind", ["io", "codec"])
async def test_without_a_thread_the_future_has_the_error(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A caller has taken a place in a line, or noted that it waits, and counts on the end."""
    io = IoThreads(1)
    run = io.run if kind == "io" else io.unpack

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        work = run(len, b"two")
    with pytest.raises(RuntimeError, match="can't start"):
        await work

    assert await run(len, b"three") == 5
    io.close()
