"""Liveness, readiness and the command that asks for it."""

import asyncio
import errno
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.broker.commands.health import run_health
from siltstone.broker.commands.http_client import ask
from siltstone.broker.http import health
from siltstone.broker.http.health import DISK_CACHE_SECONDS, DiskCheck, Health, LoopWatch
from siltstone.broker.http.readiness import PROBE_CACHE_SECONDS, ProbeFailed, Readiness
from siltstone.broker.http.server import HttpServer
from siltstone.broker.http.values import HttpRequest, HttpResponse, Route
from siltstone.broker.process.io import IoThreads
from siltstone.storage.directory.log_directory import LogDirectory
from tests.support.clock import FakeClock
from tests.support.http_client import having

REQUEST = HttpRequest(method="GET", path="/")


@pytest.fixture
def io() -> Iterator[IoThreads]:
    """Io threads that end with the test."""
    threads = IoThreads(2)
    yield threads
    threads.close()


class Trips:
    """Round trips of a probe that succeed until they are told not to."""

    def __init__(self) -> None:
        self.count = 0
        self.fault: Exception | None = None

    async def __call__(self) -> None:
        """Make one."""
        self.count += 1
        if self.fault is not None:
            raise self.fault


def test_lag_is_never_negative() -> None:
    """A timer that fired early was on time."""
    watch = LoopWatch(FakeClock())

    watch.record(-0.001)
    watch.record(0.25)

    assert watch.worst_recent == 0.25
    assert (watch.lag.count, watch.lag.seconds) == (2, 0.25)


async def test_a_failed_cleaning_is_told_and_no_fault() -> None:
    """Clients are served; the health shows it nevertheless."""
    remarks = ["partition a-0 is not compacted: why"]
    readiness = Readiness(FakeClock(), Trips(), list, lambda: remarks)

    readiness.open()
    response = await readiness.answer(REQUEST)

    assert response.status == 200
    assert response.body == b"ready\npartition a-0 is not compacted: why\n"


async def test_healthy_when_disks_write(io: IoThreads, tmp_path: Path) -> None:
    """A directory that takes bytes is healthy, and the file is ours and hidden."""
    clock = FakeClock()
    page = Health(LoopWatch(clock), [DiskCheck(LogDirectory(tmp_path), io, clock)])

    response = await page.answer(REQUEST)

    assert response.status == 200
    assert await asyncio.to_thread(lambda: [path.name for path in tmp_path.iterdir()]) == [
        ".siltstone-health"
    ]


async def test_disk_that_cannot_be_written_is_named(io: IoThreads, tmp_path: Path) -> None:
    """The sentence says which directory and what the kernel said."""
    clock = FakeClock()
    missing = tmp_path / "missing"
    page = Health(
        LoopWatch(clock),
        [DiskCheck(LogDirectory(missing), io, clock), DiskCheck(LogDirectory(tmp_path), io, clock)],
    )

    response = await page.answer(REQUEST)

    assert response.status == 503
    assert isinstance(response.body, bytes)
    assert f"{missing} cannot be written: [Errno 2]" in response.body.decode()


async def test_disk_is_tried_again_after_some_seconds(
    io: IoThreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is kept for a while, then asked for again."""
    clock = FakeClock()
    check = DiskCheck(LogDirectory(tmp_path), io, clock)
    assert await check.find_fault() is None

    def broken(_directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(health, "write_and_sync", broken)
    kept = await check.find_fault()
    clock.advance(DISK_CACHE_SECONDS * 1000)
    fresh = await check.find_fault()

    assert kept is None
    assert fresh is not None
    assert "Input/output error" in fresh


async def test_full_disk_is_told_and_no_fault(
    io: IoThreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart makes no room, and the broker would not come back: fetches go on meanwhile."""
    clock = FakeClock()

    def full(_directory: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(health, "write_and_sync", full)
    response = await Health(
        LoopWatch(clock), [DiskCheck(LogDirectory(tmp_path), io, clock)]
    ).answer(REQUEST)

    assert response.status == 200
    assert isinstance(response.body, bytes)
    said, why = response.body.decode().splitlines()
    assert said.startswith("alive: 0 of 1 log directories take writes, the event loop")
    assert why == (
        f"log directory {tmp_path} cannot be written: [Errno 28] No space left on device; make "
        "room on the disk; until then produce requests are refused, and fetches go on"
    )


async def test_disk_that_hangs_costs_one_thread(
    io: IoThreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question while a try hangs is answered so; no second try is started."""
    release = threading.Event()
    tries: list[Path] = []

    def hang(directory: Path) -> None:
        tries.append(directory)
        release.wait()

    monkeypatch.setattr(health, "write_and_sync", hang)
    clock = FakeClock()
    check = DiskCheck(LogDirectory(tmp_path), io, clock, limit_seconds=0.01)
    faults = [await check.find_fault()]
    clock.advance(DISK_CACHE_SECONDS * 1000)
    faults.append(await check.find_fault())
    release.set()

    assert tries == [tmp_path]
    assert all(fault is not None and "did not take a few bytes" in fault for fault in faults)


async def test_not_ready_before_recovery() -> None:
    """Until the logs are open nothing is probed."""
    readiness = Readiness(FakeClock(), Trips(), list)

    assert await readiness.find_fault() == "the logs are still being opened"
    assert not readiness.is_ready


async def test_ready_after_a_round_trip() -> None:
    """One successful round trip turns the page to 200."""
    readiness = Readiness(FakeClock(), Trips(), list)
    readiness.open()

    assert (await readiness.answer(REQUEST)).status == 200
    assert readiness.is_ready


async def test_round_trip_is_kept_for_a_moment() -> None:
    """Questions within a second share one round trip, simultaneous ones too."""
    clock, trips = FakeClock(), Trips()
    readiness = Readiness(clock, trips, list)
    readiness.open()

    await asyncio.gather(*(readiness.find_fault() for _ in range(5)))
    kept = trips.count
    clock.advance(PROBE_CACHE_SECONDS * 1000)
    await readiness.find_fault()

    assert (kept, trips.count) == (1, 2)


@pytest.mark.parametrize(
    "fault", [ProbeFailed("other bytes"), ConnectionRefusedError("refused"), EOFError("closed")]
)
async def test_failed_round_trip_is_not_ready(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that was ready and is not any more says so once in its log."""
    clock, trips = FakeClock(), Trips()
    readiness = Readiness(clock, trips, list)
    readiness.open()
    await readiness.find_fault()
    trips.fault = fault
    for _ in range(2):
        clock.advance(PROBE_CACHE_SECONDS * 1000)
        response = await readiness.answer(REQUEST)

    assert response.status == 503
    assert isinstance(response.body, bytes)
    assert str(fault) in response.body.decode()
    assert caplog.text.count("no longer ready") == 1


async def test_dead_thread_turns_readiness_red() -> None:
    """A background thread that died is named."""
    dead: list[str] = []
    readiness = Readiness(FakeClock(), Trips(), lambda: dead)
    readiness.open()
    before = await readiness.find_fault()
    dead.append("housekeeping")

    assert before is None
    assert "housekeeping died" in (await readiness.find_fault() or "")


async def test_stopping_broker_is_not_ready() -> None:
    """Traffic is to go elsewhere as soon as the stop begins."""
    readiness = Readiness(FakeClock(), Trips(), list)
    readiness.open()
    await readiness.find_fault()

    readiness.close()

    assert await readiness.find_fault() == "the broker is stopping"
    assert not readiness.is_ready


def options_for(host: str, port: int) -> Namespace:
    """Return the options of the health command for a port."""
    sets = [f"http.listener={host}:{port}"]
    return Namespace(config=None, sets=sets, json=False, timeout=10.0)


@pytest.mark.parametrize("ready", [True, False])
async def test_health_command_asks_the_broker(
    ready: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 when ready, 1 with the reason when not."""
    readiness = Readiness(FakeClock(), Trips(), list)
    if ready:
        readiness.open()
    server = HttpServer(having([Route("GET", "/readyz", readiness.answer)]))
    ((host, port),) = await server.start("127.0.0.1", 0)

    code = await asyncio.to_thread(run_health, options_for(host, port))
    await server.close()

    said = capsys.readouterr()
    assert code == (0 if ready else 1)
    assert said.out + said.err == (
        "ready\n" if ready else "not ready: the logs are still being opened\n"
    )


async def test_health_command_without_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listening is exit code 1 and a sentence with the address."""
    server = HttpServer(having([]))
    ((host, port),) = await server.start("127.0.0.1", 0)
    await server.close()

    assert await asyncio.to_thread(run_health, options_for(host, port)) == 1
    assert f"no broker answers on http.listener {host}:{port}" in capsys.readouterr().err


async def test_client_brings_body_and_token() -> None:
    """The commands' client sends what a page needs and understands a refusal."""
    seen: list[HttpRequest] = []

    async def page(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(status=409, body=b"no\n")

    server = HttpServer(having([Route("POST", "/v1/x", page)]))
    ((host, port),) = await server.start("127.0.0.1", 0)
    answer = await asyncio.to_thread(ask, (host, port), "POST", "/v1/x", token="t", body=b"{}")
    await server.close()

    assert (answer.status, answer.sentence) == (409, "no")
    assert seen[0].headers[b"authorization"] == b"Bearer t"
    assert seen[0].body == b"{}"
