"""The scrub: damage in closed segments is found in the background, and told once."""

import errno
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from siltstone.broker.commands.explain_text import explanation_lines
from siltstone.broker.http.control.token import read_address
from siltstone.broker.http.metrics.disks import SCRUB_METRICS
from siltstone.broker.topics.scrub import ROUND_SECONDS, Scrub
from siltstone.config.server import ServerConfig
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.cleaner import CleanerHome
from tests.support.faults import Disk, Fault, install
from tests.support.http_client import ask
from tests.support.metrics import make_sources, rows_of
from tests.support.ports import address_of
from tests.support.running import running
from tests.support.waiting import give_turns_until, wait_until

ORDERS = TopicPartition("orders", 0)
FAST, SLOW = 1 << 90, 1
"""Bytes per second: the slow one waits for a clock that stands still, the fast one never does."""


class Settings:
    """The settings of a broker, which a test changes."""

    def __init__(self) -> None:
        self.server = ServerConfig()
        self._callbacks: list[Callable[[], Awaitable[None]]] = []

    def on_change(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Register what is awaited after a change."""
        self._callbacks.append(callback)

    async def reload(self, rate: int) -> None:
        """Put another rate in force."""
        self.server = ServerConfig(log_scrub_bytes_per_second=rate)
        for each in self._callbacks:
            await each()


class Home(CleanerHome):
    """Logs with a scrub that is off."""

    def open(self) -> None:
        """Open the folders, with a new scrub."""
        super().open()
        self.settings_in_force = Settings()
        self.scrub = Scrub(self.logs, cast("Any", self.settings_in_force), self.clock)

    async def run(self, rate: int = FAST) -> None:
        """Start the scrub with a rate."""
        await self.scrub.start()
        await self.settings_in_force.reload(rate)
        if rate == FAST:
            wait_until(lambda: self.scrub.last_round_ms, "the first round")

    def close(self) -> None:
        """Stop cleanly."""
        self.scrub.stop()
        super().close()

    def wait_for_round(self) -> None:
        """Have another round begin, and wait for its end."""
        self.clock.advance(ROUND_SECONDS * 1000)
        now_ms = self.clock.now_ms()
        self.scrub._wake.set()  # its pause is counted by a clock that stands still
        wait_until(lambda: self.scrub.last_round_ms >= now_ms, "a whole round")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A topic with three closed segments of one batch each, and one without."""
    home = Home(tmp_path)
    log = home.create()
    home.fill(log)
    for segment in log.segments:
        segment.files.forget_all()  # else their flush has left them open
    append_unchecked(home.create("active"), 3)
    yield home
    home.close()


def orders(home: Home) -> Log:
    """Return the log with closed segments."""
    return home.logs.logs[ORDERS]


def flip(home: Home, number: int = 1) -> Path:
    """Change a byte of the records in a closed segment, and return its file."""
    path = orders(home).segments[number].log_path
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    return path


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as an error."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def open_logs(home: Home) -> list[str]:
    """Return the `.log` files of the scrubbed topic that are open, and no writer has."""
    found = []
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        except FileNotFoundError:
            continue
        if str(orders_path(home)) in name and ".log" in name:
            found.append(name)
    return found


def orders_path(home: Home) -> Path:
    """Return the folder of the scrubbed topic."""
    return home.paths[0] / str(ORDERS)


async def test_a_flipped_byte_is_told_once(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """With file, position, offsets and what to do; the next round tells nothing more."""
    path = flip(home)
    await home.run()
    home.wait_for_round()

    (line,) = lines(caplog)
    assert line.startswith(
        f"orders-0 is damaged: {path}: the batch at position 0 is damaged: "
        "its checksum is wrong, offsets 10 to 19; take the segment from a backup"
    ), line
    assert "k1" not in line
    assert "value" not in line
    assert home.scrub.find_damage() == {ORDERS: [line]}
    assert home.scrub.remarks() == [line]


async def test_it_is_told_again_after_a_restart(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """Findings are in memory only."""
    flip(home)
    await home.run()
    home.restart()
    caplog.clear()
    assert home.scrub.find_damage() == {}

    await home.run()

    assert len(lines(caplog)) == 1
    assert home.scrub.find_damage().keys() == {ORDERS}


@pytest.mark.parametrize(("size", "words"), [(-3, "is incomplete"), (61, "is incomplete")])
async def test_a_segment_that_was_cut(home: Home, size: int, words: str) -> None:
    """Its offsets are all that are left of the segment."""
    path = orders(home).segments[0].log_path
    path.write_bytes(path.read_bytes()[:size])
    await home.run()

    ((sentence,),) = home.scrub.find_damage().values()
    assert f"the batch at position 0 {words}, offsets 0 to 9; " in sentence


async def test_sound_segments_are_read_whole(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Each closed segment once in a round, an active one never."""
    await home.run()
    before = home.scrub.throttle.total_bytes
    home.wait_for_round()

    closed = sum(segment.size for segment in orders(home).segments[:-1])
    assert home.scrub.throttle.total_bytes - before == closed
    assert lines(caplog) == []
    assert open_logs(home) == []


async def test_it_reads_at_its_rate(home: Home) -> None:
    """A read is paid for by time before the next one."""
    first, *_ = orders(home).segments
    await home.run(first.size)
    wait_until(lambda: home.scrub.throttle.total_bytes, "the first read")
    home.clock.advance(500)
    assert home.scrub.throttle.total_bytes == first.size
    home.clock.advance(500)

    wait_until(lambda: home.scrub.throttle.total_bytes == 2 * first.size, "the second read")


@pytest.mark.parametrize("way", ["retention", "cleaner", "deletion"])
async def test_a_segment_that_goes_meanwhile_is_no_damage(
    home: Home, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    """Its file is closed at once, so that its room on the disk is free."""
    log = orders(home)
    flip(home, 0) if way != "cleaner" else None
    await home.run(SLOW)
    wait_until(lambda: home.scrub.throttle.total_bytes, "the first read")
    assert len(open_logs(home)) == 1
    if way == "retention":
        home.reconfigure(log, cleanup_policy=("delete",), retention_bytes=0)
        assert log.apply_retention(home.clock.now_ms())
    elif way == "cleaner":
        assert home.thread.step()
        home.settle()
        home.clock.advance(log.config.file_delete_delay_ms)
        home.logs.deletions.run_due()
    else:
        home.logs.delete(ORDERS)
    home.settle()

    for segment in log.segments:
        segment.files.forget_all()
    wait_until(lambda: not open_logs(home), "a closed file")
    await home.settings_in_force.reload(FAST)
    home.wait_for_round()
    assert home.scrub.find_damage() == {}
    assert lines(caplog) == []


async def test_damage_goes_with_its_segment(home: Home) -> None:
    """A segment that retention has deleted is no trouble any more."""
    flip(home)
    await home.run()
    log = orders(home)
    home.reconfigure(log, cleanup_policy=("delete",), retention_bytes=0)
    assert log.apply_retention(home.clock.now_ms())

    assert home.scrub.find_damage() == {}
    assert home.scrub.remarks() == []


async def test_a_read_that_fails(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as that of a fetch is, and no more once the disk reads again."""
    name = orders(home).segments[0].log_path.name
    disk = install(monkeypatch, Disk(faults=[Fault("preadv", errno.EIO, path=f"orders-0/{name}")]))
    await home.run()

    (line,) = lines(caplog)
    assert line.startswith("files of orders-0 cannot be read: [Errno 5]")
    assert home.scrub.find_damage() == {ORDERS: [line]}
    disk.faults.clear()
    home.wait_for_round()
    assert home.scrub.find_damage() == {}


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_short_descriptors_and_memory_are_no_damage(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The segment is sound, and is read once there are some."""
    monkeypatch.setattr("siltstone.broker.topics.scrub._SCARCE_SECONDS", 0.0)
    name = orders(home).segments[0].log_path.name
    fault = Fault("open", error, path=f"orders-0/{name}", times=3)
    install(monkeypatch, Disk(faults=[fault]))
    await home.run()

    assert fault.hits == 4
    assert home.scrub.find_damage() == {}
    assert lines(caplog) == []
    assert home.scrub.throttle.total_bytes == sum(each.size for each in orders(home).segments[:-1])


async def test_a_stop_while_descriptors_are_short(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try is not waited for."""
    monkeypatch.setattr("siltstone.broker.topics.scrub._SCARCE_SECONDS", 1000.0)
    fault = Fault("open", errno.EMFILE, path="orders-0/")
    install(monkeypatch, Disk(faults=[fault]))
    await home.run(SLOW)
    wait_until(lambda: fault.hits, "the first try")

    home.scrub.stop()

    assert home.scrub._thread is not None
    assert not home.scrub._thread.is_alive()


async def test_a_wrong_length_is_not_read(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """A flipped bit makes it up to a gigabyte, more than a broker may have in memory."""
    segment = orders(home).segments[1]
    size = 64 << 20
    with segment.log_path.open("r+b") as file:
        file.seek(8)
        file.write((size - 1000).to_bytes(4, "big"))
        file.truncate(size)
    segment.end.resize(size)
    await home.run()

    (line,) = lines(caplog)
    assert f"{segment.log_path}: the batch at position 0 is incomplete, offsets " in line
    assert home.scrub.throttle.total_bytes < 4 << 20


async def test_a_large_batch_is_sound(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """It is read at once, in the middle and at the end of a segment."""
    log = home.create("large")
    large: list[tuple[bytes | None, bytes | None]] = [(b"k", bytes(3 << 20))]
    append_unchecked(log, large, codec=0)
    append_unchecked(log, large, codec=0)
    log.roll()
    await home.run()

    assert lines(caplog) == []
    assert home.scrub.throttle.total_bytes > 6 << 20


async def test_a_file_that_somebody_took(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The log still has the segment, so it is damage."""
    orders(home).segments[0].log_path.unlink()
    await home.run()

    (line,) = lines(caplog)
    assert line.startswith("files of orders-0 cannot be read: [Errno 2]")


async def test_a_reload_turns_it_on_and_off(home: Home) -> None:
    """Without a rate nothing is read, and no thread begins."""
    flip(home)
    await home.scrub.start()
    assert home.scrub._thread is None
    await home.settings_in_force.reload(SLOW)
    wait_until(lambda: home.scrub.throttle.total_bytes, "the first read")
    await home.settings_in_force.reload(0)
    wait_until(lambda: not open_logs(home), "the end of the read")
    assert home.scrub.last_round_ms == 0

    await home.settings_in_force.reload(FAST)
    home.wait_for_round()

    assert home.scrub.find_damage().keys() == {ORDERS}


async def test_a_stop_does_not_wait_for_the_rate(home: Home) -> None:
    """A read that may go on in an hour ends at once."""
    await home.run(1)
    wait_until(lambda: home.scrub.throttle.total_bytes, "the first read")

    home.scrub.stop()

    assert home.scrub._thread is not None
    assert not home.scrub._thread.is_alive()
    assert open_logs(home) == []


async def test_an_offline_directory_is_left_alone(home: Home) -> None:
    """Its disk would fail with every read."""
    orders(home).directory.fail(OSError(errno.EIO, "gone"))
    await home.run()

    assert home.scrub.throttle.total_bytes == 0


async def test_metrics_and_explanation(home: Home) -> None:
    """Bytes, the last round, damaged segments by partition; and the sentence in `explain`."""
    flip(home, 0)
    flip(home, 1)
    await home.run()
    sources = make_sources({})
    object.__setattr__(sources, "scrub", home.scrub)

    rows = {metric.name: list(rows_of(metric, sources)) for metric in SCRUB_METRICS}

    assert rows["siltstone_scrub_damaged_segments"] == [(("orders", "0"), 2)]
    assert rows["siltstone_scrub_bytes"] == [((), home.scrub.throttle.total_bytes)]
    assert rows["siltstone_scrub_last_round_timestamp_seconds"] == [
        ((), home.scrub.last_round_ms / 1000)
    ]
    facts = {
        "topic": "orders",
        "partition": 0,
        "rule": "offline",
        "eligible": False,
        "because": "a test",
        "next_eligible_ms": None,
        "damage": home.scrub.find_damage()[ORDERS],
    }
    told = [line for line in explanation_lines([facts], 0, in_detail=True) if "damage  " in line]
    assert len(told) == 2
    assert files.LOG in told[0]


async def test_a_running_broker_shows_it(tmp_path: Path) -> None:
    """On /readyz, which stays green, in metrics, and in `explain`."""
    folder = tmp_path / "data"
    async with running(folder) as broker:
        await broker.topics.create("orders", 1, {})
        log = broker.logs.logs[ORDERS]
        append_unchecked(log, 3)
        log.roll()
        path = log.segments[0].log_path
        wait_until(lambda: log.recovery_point, "the flush of the closed segment")
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)

        rate = {"log.scrub.bytes.per.second": "1000000"}
        await broker.broker._settings.alter(broker=rate)
        readyz = await give_turns_until(lambda: page(folder, "/readyz"), "a remark", _is_told)
        metrics = await page(folder, "/metrics")
        explained = await page(folder, "/v1/explain?topic=orders")

    assert readyz.startswith("ready\norders-0 is damaged: ")
    assert 'siltstone_scrub_damaged_segments{topic="orders",partition="0"} 1\n' in metrics
    (facts,) = json.loads(explained)["partitions"]
    assert [path.name in sentence for sentence in facts["damage"]] == [True]


def _is_told(text: str) -> bool:
    return "is damaged" in text


async def page(folder: Path, path: str) -> str:
    """Return a page of the broker that has a folder."""
    address = read_address(folder)
    assert address is not None
    return (await ask(address_of(address)[1], path)).body.decode()
