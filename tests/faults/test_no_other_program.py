"""A broker at its work starts no other program; seen by strace, in all of its threads."""

import re
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


@pytest.mark.compiled
async def test_no_other_program_is_started(
    broker: SiltstoneProcess, tmp_path: Path, connect: Connect
) -> None:
    """From the moment that it is ready."""
    broker.start()
    with traced(broker.daemon.pid, tmp_path / "trace", CALLS):
        await work(broker, connect)

    assert programs(tmp_path / "trace") == set()
    assert broker.stop() == 0


async def test_where_nothing_is_compiled_the_cleaner_has_a_helper(
    broker: SiltstoneProcess, tmp_path: Path, connect: Connect
) -> None:
    """The same Python and nothing else; so the test before would see a program."""
    broker.environ["SILTSTONE_KERNELS"] = "off"
    broker.start()
    with traced(broker.daemon.pid, tmp_path / "trace", CALLS):
        await work(broker, connect)

    assert programs(tmp_path / "trace") == {sys.executable}
    assert broker.stop() == 0
