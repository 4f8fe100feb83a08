"""Malformed frames against the real process, and a client that must not notice.

`FUZZ_FRAMES` sets their number (default 10,000), `FUZZ_SEED` repeats a run; `make fuzz` sends ten
million. One in ten is a login, by SASL. A frame that hangs or crashes the broker is printed with
its number, and `tests.support.frames.make_frame(seed, number)`, or `make_login`, makes it again.
"""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.broker import ADDRESS, SiltstoneProcess
from tests.support.frames import PASSWORD, TARGET, USER
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
WORKERS = 2
WARM = 1_000
MAX_GROWTH = 40 << 20
SLACK = 0.05
STALL = 1.0


class Control:
    """A client that writes and reads all the while, and knows what it must read."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.sent: list[bytes] = []

    async def run(self, work: asyncio.Future[None]) -> list[float]:
        """Write and read until the work is done; return how long each turn took, sorted."""
        seconds = []
        while not work.done():
            began = time.monotonic()
            value = b"value %08d." % len(self.sent)  # long: no other field may look like it
            assert await self.traffic.produce(value) == 0
            error, data = await self.traffic.fetch(len(self.sent))
            assert (error, data.count(value)) == (0, 1)
            self.sent.append(value)
            seconds.append(time.monotonic() - began)
            await asyncio.sleep(0.005)
        await work
        return sorted(seconds)


class Fuzzer:
    """The processes that send."""

    def __init__(self, address: str, logins: str, seed: int) -> None:
        self.addresses = (address, logins)
        self.seed = seed
        self.outcomes: Counter[str] = Counter()

    async def send(self, first: int, count: int, kind: str = "malformed") -> None:
        """Send a range of frames from several processes."""
        share = -(-count // WORKERS)
        starts = range(first, first + count, share)
        await asyncio.gather(
            *(self._send(start, min(share, first + count - start), kind) for start in starts)
        )

    async def _send(self, first: int, count: int, kind: str) -> None:
        numbers = (self.seed, first, count)
        command = [sys.executable, "-m", "tests.fuzz.sending", *self.addresses]
        finished = await asyncio.to_thread(
            subprocess.run,
            [*command, *map(str, numbers), kind],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        for word in finished.stdout.split():
            outcome, number = word.split("=")
            self.outcomes[outcome] += int(number)


def percentile(seconds: list[float], share: float) -> float:
    """Return the value below which a share of the sorted values lies."""
    return seconds[int(share * (len(seconds) - 1))]


def fault_in(output: Path) -> str:
    """Return the log around the first fault of ours, or nothing; a refused frame is no fault."""
    before: deque[str] = deque(maxlen=3)
    with output.open(errors="replace") as lines:
        for line in lines:
            if "request failed" in line or "Traceback" in line:
                return "".join((*before, line, *itertools.islice(lines, 60)))
            before.append(line)
    return ""


def ask_for_logins(siltstone: SiltstoneProcess) -> None:
    """Let it have a listener with SASL beside its own, and a user."""
    siltstone.folder.mkdir(parents=True)
    own = {each.name: make_verifier(each, PASSWORD) for each in MECHANISMS.values()}
    UserStore(siltstone.folder).write({USER: {PLAIN: make_verifier(PLAIN_HASH, PASSWORD), **own}})
    siltstone.settings |= {
        "listeners": f"PLAINTEXT://{siltstone.listener},SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join((PLAIN, *MECHANISMS)),
        "connection.failed.authentication.delay.ms": "1",
    }


@pytest.mark.timeout(36_000)
async def test_malformed_frames(
    siltstone: SiltstoneProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """No frame stops, slows or fattens the broker, or has a handler fail."""
    frames = int(os.environ.get("FUZZ_FRAMES") or 10_000)
    seed = int(os.environ.get("FUZZ_SEED") or time.time_ns() % 2**32)
    ask_for_logins(siltstone)
    siltstone.settings["auto.create.topics.enable"] = "false"
    siltstone.start()
    logins = siltstone.daemon.wait_for(ADDRESS.format("SASL"))[1]

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", flush=True)  # noqa: T201

    say(f"{frames} malformed frames, FUZZ_SEED={seed}")
    traffic = await Traffic.connect(siltstone.bootstrap, "control-7d1f3a")
    try:
        fuzzer = Fuzzer(siltstone.bootstrap, logins, seed)
        await attack(siltstone, Control(traffic), fuzzer, frames, say)
    finally:
        await traffic.caller.client.close()
    assert siltstone.stop() == 0
    siltstone.daemon.output.unlink()  # a line for each frame


async def attack(
    siltstone: SiltstoneProcess,
    control: Control,
    fuzzer: Fuzzer,
    frames: int,
    say: Callable[[str], None],
) -> None:
    """Send the frames beside the control client, judge broker and client, and say the figures."""
    assert await control.traffic.create() == 0
    assert await Traffic(control.traffic.caller, TARGET).create(partitions=2) == 0
    await fuzzer.send(frames, WARM)
    before = siltstone.resident_bytes
    base = await control.run(asyncio.ensure_future(fuzzer.send(0, frames // 5, "valid")))
    fuzzer.outcomes.clear()
    began = time.monotonic()
    under = await control.run(asyncio.ensure_future(fuzzer.send(0, frames)))
    seconds = time.monotonic() - began
    grown = siltstone.resident_bytes - before
    slow, slow_before = percentile(under, 0.99), percentile(base, 0.99)
    say(
        f"{dict(fuzzer.outcomes)} in {seconds:.0f} s; control client p99 {slow * 1000:.1f} ms, "
        f"at most {under[-1] * 1000:.1f} ms; {slow_before * 1000:.1f} ms beside valid ones, "
        f"{len(control.sent)} records; memory {grown >> 10:+} KiB"
    )

    assert fuzzer.outcomes.total() == frames
    fault = fault_in(siltstone.daemon.output)
    assert not fault, fault
    assert slow < 5 * slow_before + SLACK
    assert under[-1] < STALL + base[-1]
    assert grown < MAX_GROWTH
    assert await control.traffic.values() == control.sent
