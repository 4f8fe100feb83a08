"""A broker at its work starts no other program; seen by strace, in all of its threads."""

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.strace import traced
from tests.support.traffic import Traffic

pytestmark = pytest.mark.slow

Connect = Callable[[SiltstoneProcess, str], Awaitable[Traffic]]
CALLS = "--trace=execve,execveat"
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}


@pytest.fixture
def broker(siltstone: SiltstoneProcess) -> Iterator[SiltstoneProcess]:
    """A broker that does not run yet."""
    yield siltstone
    siltstone.close()


async def work(broker: SiltstoneProcess, connect: Connect) -> None:
    """Have it create a topic, produce, fetch, clean, look at its health, and reload."""
    traffic = await connect(broker, "orders")
    assert await traffic.create(COMPACT) == 0
    for value in (b"old", b"new"):
        assert await traffic.produce(value) == 0
    assert await traffic.values() == [b"old", b"new"]
    for command in (["clean", "orders", "--roll", "--wait"], ["health"], ["reload"]):
        done = broker.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "reload" in broker.daemon.printed()


def programs(trace: Path) -> set[str]:
    """Return what was started."""
    told = trace.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r'execve(?:at)?\((?:\w+, )?"(.*?)"', told))


async def test_no_other_program_is_started(
    broker: SiltstoneProcess, tmp_path: Path, connect: Connect
) -> None:
    """From the moment that it is ready."""
    broker.start()
    with traced(broker.daemon.pid, tmp_path / "trace", CALLS):
        await work(broker, connect)

    assert programs(tmp_path / "trace") == set()
    assert broker.stop() == 0


def test_a_program_would_be_seen(tmp_path: Path) -> None:
    """Whatever thread starts it."""
    code = (
        "import subprocess, threading; input()\n"
        "thread = threading.Thread(target=subprocess.run, args=(['/bin/true'],))\n"
        "thread.start(); thread.join()"
    )
    asked = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    with traced(asked.pid, tmp_path / "trace", CALLS):
        asked.communicate(b"\n")

    assert asked.returncode == 0
    assert programs(tmp_path / "trace") == {"/bin/true"}
