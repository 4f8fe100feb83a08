"""The container image is built without an engine and keeps what its documents promise.

Not tried here: the public base image (its Python version and libc), other architectures, a
container engine's seccomp profile, its networking, volumes and health scheduling, compose.yaml.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.image import DATA, NEEDED, USER, Room, Settings, build, mounted
from tests.support.missing import require

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BYTECODE = ("usr/lib/python3*/asyncio", "opt/siltstone/lib/python3*/site-packages/siltstone/broker")
CLIENT = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
at = {"bootstrap.servers": "127.0.0.1:9092"}
first = int(sys.argv[1])
producer = Producer({**at, "compression.type": "zstd", "enable.idempotence": True})
for number in range(first, first + 100):
    producer.produce("checked", b"value %d" % number, partition=0)
assert producer.flush(50) == 0
consumer = Consumer({**at, "group.id": "unused", "auto.offset.reset": "error"})
consumer.assign([TopicPartition("checked", 0, 0)])
read = [consumer.poll(50).value() for _ in range(first + 100)]
assert read == [b"value %d" % number for number in range(first + 100)], read
"""


@pytest.fixture(scope="module")
def settings() -> Settings:
    """The settings of the image, which is built here."""
    for program in NEEDED:
        require(program)
    if os.geteuid():
        pytest.skip("root: only root may mount")
    return build()


@pytest.fixture(scope="module")
def root(settings: Settings) -> Iterator[Path]:
    """The image's files."""
    with mounted() as folder:
        yield folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of the image's user, as a volume is."""
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, USER, USER)
    return folder


@pytest.fixture
def room(root: Path, data: Path, settings: Settings) -> Iterator[Room]:
    """The image's command, not yet started."""
    made = Room(root, data, settings)
    yield made
    made.close()


def test_it_announces_how_it_is_run(settings: Settings) -> None:
    """An engine reads the user, the command, the signal, the check, ports and the volume."""
    assert settings["User"] == f"{USER}:{USER}"
    assert settings["Entrypoint"] == ["siltstone-entrypoint"]
    assert settings["StopSignal"] == "SIGTERM"
    assert settings["Healthcheck"]["Test"][:3] == ["CMD", "siltstone", "health"]
    assert set(settings["ExposedPorts"]) == {"9092/tcp", "9464/tcp"}
    assert set(settings["Volumes"]) == {f"/{DATA}"}


def test_the_tools_of_the_build_are_left_behind(root: Path) -> None:
    """No compiler, and no pip in its virtual environment."""
    assert not (root / "usr/bin/gcc").exists()
    assert not (root / "opt/siltstone/bin/pip").exists()


def test_python_need_not_compile_at_a_start(root: Path) -> None:
    """On a read-only root the bytecode of Python's library and of ours must exist before."""
    assert [each for each in BYTECODE if not any(root.glob(f"{each}/__pycache__/*.pyc"))] == []


def test_it_runs_confined(room: Room) -> None:
    """Nobody's uid, no capabilities, no way to gain privileges, and a root that is read-only."""
    room.start()

    status = room.status()
    refused = room.inside("/bin/touch", "/written")

    assert status["Uid"].split() == [str(USER)] * 4
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert "Read-only" in refused.stderr


def test_its_core_is_compiled(room: Room) -> None:
    """The build had a compiler; the broker loads what it made, and serves."""
    room.start()

    core = room.inside(
        "python3", "-c", "from siltstone.protocol.core import _records as it; print(it.__file__)"
    )
    assert core.stdout.endswith(".so\n")


def test_a_stock_client_finds_its_records_after_a_restart(room: Room, data: Path) -> None:
    """SIGTERM ends it with 0 and a folder that was closed; the next start has every record."""
    for first in (0, 100):
        room.start()
        trip = room.beside(sys.executable, "-c", CLIENT, str(first))

        assert trip.returncode == 0, trip.stderr
        assert room.daemon.terminate() == 0
        assert (data / ".kafka_cleanshutdown").exists()
