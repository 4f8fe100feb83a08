"""The broker's process: what it is started with, why it may not start, and that it always ends."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from siltstone.testing import StartFailed, broker, folders
from siltstone.testing.folders import Folder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PARENT = """
import signal, sys, time
import siltstone.testing
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
with siltstone.testing.broker() as kafka:
    if "paused" in sys.argv:
        kafka.pause()
    print(kafka.pid, kafka.folder, flush=True)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Tell whether a process lives and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("state", ["running", "paused"])
def test_it_ends_with_its_parent(number: signal.Signals, state: str) -> None:
    """However that ends, the broker does too, even while it is paused; its folder is gone."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, state],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert is_alive(int(pid))
    assert Path(folder).is_dir()

    parent.send_signal(number)
    parent.communicate()

    wait_until(lambda: not is_alive(int(pid)), "the end of the broker")
    wait_until(lambda: not Path(folder).exists(), "the end of its folder")


def test_a_killed_broker_of_a_killed_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody is left to remove the folder: the next one does, and no other's."""
    monkeypatch.setattr(folders, "MEMORY", tmp_path)
    monkeypatch.setattr(folders, "ROOM_BYTES", 0)
    left = Folder()
    os.close(left._owner)  # as the end of its process does
    living = Folder()
    strange = tmp_path / "siltstone-testing-strange"
    strange.mkdir()

    latest = Folder()

    assert not left.path.exists()
    assert living.path.is_dir()
    assert strange.is_dir()
    for each in (living, latest):
        each.remove()
        assert not each.path.exists()


def test_a_folder_that_is_just_made_is_not_swept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers of one run start at once: one sweeps while the other has a folder and no lock yet."""
    monkeypatch.setattr(folders, "MEMORY", tmp_path)
    monkeypatch.setattr(folders, "ROOM_BYTES", 0)
    lock = fcntl.flock
    others: list[Folder] = []

    def lock_late(descriptor: int, how: int) -> None:
        monkeypatch.setattr("fcntl.flock", lock)
        others.append(Folder())
        lock(descriptor, how)

    monkeypatch.setattr("fcntl.flock", lock_late)
    folder = Folder()

    assert folder.path.is_dir()
    for each in (folder, *others):
        each.remove()
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_too_small_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container with 64 MiB of it: the folder lies where temporary ones do."""
    monkeypatch.setattr(folders, "ROOM_BYTES", 1 << 60)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    folder = Folder()

    assert folder.path.parent == tmp_path
    folder.remove()


def test_its_last_words(tmp_path: Path) -> None:
    """A setting that it does not take: the sentence of the daemon is in ours."""
    with (
        pytest.raises(StartFailed) as told,
        broker({"num.partitions": 0}, folder=tmp_path / "data"),
    ):
        pass

    assert str(told.value) == (
        "the broker ended with exit code 2; the last lines of its log are\n"
        "--set: num.partitions is 0; it must be at least 1"
    )


def test_no_writable_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence, with the place and what to do."""
    monkeypatch.setattr(folders, "MEMORY", tmp_path / "missing")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "missing"))

    with pytest.raises(StartFailed) as told, broker():
        pass

    assert str(told.value) == (
        f"the broker has no folder: {tmp_path / 'missing'} is not writable (No such file or "
        "directory); set TMPDIR to a folder that is"
    )


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """One that the test has named."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StartFailed) as told, broker(folder=tmp_path / "file" / "data"):
        pass

    assert str(told.value) == (
        f"the broker has no folder: {tmp_path}/file/data cannot be made (Not a directory); name "
        "another"
    )


def test_no_free_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence, and the folder is not left behind."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(folders, "MEMORY", tmp_path)
    monkeypatch.setattr(folders, "ROOM_BYTES", 0)
    monkeypatch.setattr("siltstone.testing.daemon.socket.socket.bind", refuse)

    with pytest.raises(StartFailed) as told, broker():
        pass

    assert str(told.value) == (
        "the broker has no port: none is free on 127.0.0.1 (Address already in use); end what "
        "holds them, see ss --tcp --all"
    )
    assert list(tmp_path.iterdir()) == []


def test_variables_of_the_tests_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application under test often has KAFKA_ variables of its own."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "elsewhere:9092")
    monkeypatch.setenv("KAFKA_PROCESS_ROLES", "controller")
    monkeypatch.setenv("SILTSTONE_NUM_PARTITIONS", "none")

    with broker() as kafka:
        assert "KAFKA_" not in kafka.log


def test_the_ports_stay_taken_while_it_is_not_there() -> None:
    """Nobody else gets them between a kill and a restart."""
    with broker() as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        kafka.kill()
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
        kafka.restart()
        assert kafka.topics() == []
