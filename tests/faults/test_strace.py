"""The real process with failing and stalling system calls.

Injection by strace needs the right to trace, which a container may lack: CI gives it
(`--cap-add SYS_PTRACE`), elsewhere these are skipped with the reason.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.strace import injected
from tests.support.traffic import STORAGE_ERROR, Traffic

pytestmark = pytest.mark.slow

Connect = Callable[[SiltstoneProcess, str], Awaitable[Traffic]]
STALL = 3.0


@pytest.fixture
def broker(siltstone: SiltstoneProcess) -> Iterator[SiltstoneProcess]:
    """A running broker."""
    siltstone.start()
    yield siltstone
    siltstone.close()


def log_file(broker: SiltstoneProcess, topic: str) -> Path:
    """Return the file that a topic's batches go to."""
    return broker.folder / f"{topic}-0" / f"{0:020d}.log"


@pytest.mark.parametrize("call", ["pwrite64", "fsync"])
async def test_broken_disk(
    broker: SiltstoneProcess, tmp_path: Path, connect: Connect, call: str
) -> None:
    """EIO from the kernel: refused until the restart, which has all that was acknowledged."""
    traffic = await connect(broker, "orders")
    await traffic.create({"flush.messages": "1"})
    assert await traffic.produce(b"a") == 0
    with injected(
        broker.daemon.pid, tmp_path / "trace", call, "error=EIO", log_file(broker, "orders")
    ):
        assert await traffic.produce(b"b") == STORAGE_ERROR
    assert await traffic.produce(b"c") == STORAGE_ERROR
    assert (await traffic.values())[:1] == [b"a"]
    broker.stop()
    broker.start()
    traffic = await connect(broker, "orders")

    assert (await traffic.values())[:1] == [b"a"]
    assert await traffic.produce(b"d") == 0
    assert broker.stop() == 0


@pytest.mark.alone
async def test_stalled_disk(broker: SiltstoneProcess, tmp_path: Path, connect: Connect) -> None:
    """While an fsync hangs, others fetch from the cache, produce and connect as before."""
    safe, other = await connect(broker, "safe"), await connect(broker, "orders")
    await safe.create({"flush.messages": "1"})
    await other.create()
    await other.produce(b"a")
    with injected(
        broker.daemon.pid,
        tmp_path / "trace",
        "fsync",
        f"delay_enter={int(STALL * 1_000_000)}",
        log_file(broker, "safe"),
    ):
        began = time.monotonic()
        hanging = asyncio.create_task(safe.produce(b"waits"))
        slowest, turns = 0.0, 0
        while not hanging.done():
            turn = time.monotonic()
            assert await other.produce(b"b") == 0
            assert (await other.fetch(0))[0] == 0
            assert (await (await connect(broker, "orders")).fetch(0))[0] == 0
            slowest = max(slowest, time.monotonic() - turn)
            turns += 1
            await asyncio.sleep(0.01)
        stalled = time.monotonic() - began

    assert await hanging == 0
    assert stalled >= STALL
    assert turns > 20
    assert slowest < STALL / 3
