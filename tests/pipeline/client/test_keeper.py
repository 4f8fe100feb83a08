"""The program that renews the pins of DataFrames while Spark's driver lives."""

import json
import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.pipeline.client import keeper
from siltstone.pipeline.client.keeper import Kept, keep
from siltstone.pipeline.client.pins import find_control, take_pin
from siltstone.pipeline.errors import SnapshotExpired, SourceUnavailable
from siltstone.pipeline.planning.split import Lease
from siltstone.storage.clock import Clock
from tests.support.broker import SiltstoneProcess, a_process
from tests.support.produced import create_topic, numbered, produce
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

served = a_process()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that stands for the one that starts Spark's workers."""
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(os, "getppid", lambda: process.pid)
        yield process
        process.kill()


def pins_of(served: SiltstoneProcess, topic: str) -> list[dict[str, Any]]:
    """Return the pins of a topic, as the broker lists them."""
    listed = find_control(served.folder).ask("GET", "/v1/pins")["pins"]
    return [each for each in listed if each["topics"] == [topic]]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Have this process use the numbers below 1,100, as large programs do."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, before[1]), before[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for each in held:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_pins_live_as_long_as_the_driver(
    served: SiltstoneProcess, driver: "subprocess.Popen[bytes]"
) -> None:
    """One program renews them all, and releases them when the driver has ended."""
    create_topic(served.bootstrap, "kept")
    control = find_control(served.folder)
    for _ in range(2):
        view = take_pin(control, ["kept"], lease_ms=600_000)
        data = str(served.folder)
        keep(Lease(data=data, control="", pin=view.pin, lease_ms=60_000, cluster_id=""))
    assert len(pins_of(served, "kept")) == 2

    driver.kill()
    driver.wait()

    wait_until(lambda: not pins_of(served, "kept"), "the pins of an ended driver are released")


def test_the_newest_pins_are_kept_for_some_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones are left to their readers, and so are those that the broker no longer has."""
    now, renewed, gone = 0.0, [], {"p5"}

    def extend(_control: object, pin: str) -> None:
        renewed.append(pin)
        if pin in gone:
            raise SnapshotExpired(pin)
        if pin == "p6":
            raise SourceUnavailable("no broker answers")

    monkeypatch.setattr(keeper, "find_control", lambda data, control: (data, control))
    monkeypatch.setattr(keeper, "extend_pin", extend)
    kept = Kept(lambda: now)
    for number in range(10):
        kept.add(("d", "", f"p{number}"))

    kept.renew()
    assert renewed == [f"p{number}" for number in range(2, 10)]
    renewed.clear()
    now = 7.9 * 3600
    kept.add(("d", "", "later"))
    kept.renew()
    assert renewed == ["p2", "p3", "p4", "p6", "p7", "p8", "p9", "later"]
    renewed.clear()
    now = 8.0 * 3600
    kept.renew()
    assert renewed == ["later"]


def test_pins_of_other_users_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would have the broker's token sent to an address that they name."""
    kept = Kept(lambda: 0.0)
    renewed: list[str] = []
    monkeypatch.setattr(keeper, "find_control", lambda data, control: (data, control))
    monkeypatch.setattr(keeper, "extend_pin", lambda _control, pin: renewed.append(pin))
    sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sending, receiving:
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        for user, pin in ((os.getuid(), "own"), (os.getuid() + 1, "other")):
            monkeypatch.setattr(os, "getuid", lambda user=user: user)
            sending.send(json.dumps(("d", "", pin)).encode())
            keeper.receive(receiving, kept)
    kept.renew()

    assert renewed == ["own"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_dataframe_is_read_again_after_its_lease(
    spark: "SparkSession", served: SiltstoneProcess
) -> None:
    """A cell of a notebook that runs again later has the rows of its first run."""
    create_topic(served.bootstrap, "again", config={"cleanup.policy": "compact"})
    produce(served.bootstrap, "again", numbered(50))
    reader = spark.read.format("siltstone").option("subscribe", "again")
    frame = reader.options(data=str(served.folder), pinLeaseMs="5s").load()
    first = frame.collect()
    produce(served.bootstrap, "again", numbered(50))
    (pin,) = pins_of(served, "again")
    clock, end = Clock(), int(pin["created_ms"] + 2 * pin["lease_ms"])

    wait_until(lambda: clock.now_ms() > end, "two leases pass")

    assert len(first) == 50
    assert frame.collect() == first
