"""Messages that systemd hears on the socket of a service of Type=notify."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.broker.process.notify import ServiceManager
from siltstone.storage.clock import Clock
from tests.support.broker import SiltstoneProcess
from tests.support.clock import FakeClock


class Ear:
    """The service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(50)
        self._socket.bind(address)

    def hear(self) -> dict[str, str]:
        """Return the next message by its names."""
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    """A service manager that listens on a path."""
    made = Ear(str(tmp_path / "notify"))
    yield made
    made.close()


def test_the_life_of_a_service(tmp_path: Path, ear: Ear) -> None:
    """Ready when clients are served, reloading and ready again, stopping."""
    broker = SiltstoneProcess(
        tmp_path / "broker", environ={"NOTIFY_SOCKET": str(tmp_path / "notify")}
    )
    try:
        broker.start()
        ready = ear.hear()
        os.kill(broker.daemon.pid, signal.SIGHUP)
        reloading, again = ear.hear(), ear.hear()
        code = broker.stop()
        stopping = ear.hear()
    finally:
        broker.close()

    assert ready["READY"] == again["READY"] == "1"
    assert ready["STATUS"] == "serving clients"
    assert reloading["RELOADING"] == "1"
    assert int(reloading["MONOTONIC_USEC"]) <= Clock().monotonic() * 1_000_000
    assert stopping == {"STOPPING": "1"}
    assert code == 0


def test_a_name_that_no_file_system_has() -> None:
    """An address that begins with @ is abstract."""
    name = f"siltstone-{os.getpid()}"
    ear = Ear(f"\0{name}")
    clock = FakeClock(monotonic=2.5)

    ServiceManager({"NOTIFY_SOCKET": f"@{name}"}, clock).reloading()

    assert ear.hear() == {"RELOADING": "1", "MONOTONIC_USEC": "2500000"}
    ear.close()


def test_nobody_listens_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the variable nothing is said; a socket that is gone is a line and no fault."""
    ServiceManager({}, Clock()).stopping()
    assert caplog.messages == []

    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, Clock()).stopping()
    assert [line.split(" reason=")[0] for line in caplog.messages] == [
        f"service manager not told address={tmp_path / 'gone'}"
    ]
