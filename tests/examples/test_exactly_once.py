"""The exactly-once copy, killed at any moment, and the proof that nothing is lost or doubled."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.transactional import Confluent
from tests.support.daemon import Daemon
from tests.support.programs import run_to_end

SCRIPT = Path(__file__).parents[2] / "examples" / "exactly_once.py"
COUNT = 600


@pytest.fixture
def broker(siltstone: SiltstoneProcess) -> SiltstoneProcess:
    """A broker that has dead members leave soon."""
    siltstone.settings["group.initial.rebalance.delay.ms"] = "0"
    return siltstone.start()


def run(broker: SiltstoneProcess, command: str, *more: str) -> "subprocess.CompletedProcess[str]":
    """Run one command of the example."""
    return run_to_end([sys.executable, str(SCRIPT), *words(broker, command), *more], timeout=50)


def words(broker: SiltstoneProcess, command: str) -> list[str]:
    """Return the arguments of a command."""
    at = ["--bootstrap-server", broker.bootstrap]
    return [command, *at, "--topic", "orders", "--to", "invoices"]


@pytest.mark.client
@pytest.mark.slow
@pytest.mark.timeout(170)
def test_a_killed_copier_loses_and_doubles_nothing(
    broker: SiltstoneProcess, tmp_path: Path
) -> None:
    """Killed twice, and the broker with it once; the last copier ends and the proof holds."""
    run(broker, "fill", "--count", str(COUNT))
    copier = Daemon(tmp_path / "copier.log")
    command = [sys.executable, str(SCRIPT), *words(broker, "copy")]

    copier.launch(command)
    copier.wait_for(r"copied 50$", 40)
    copier.kill()
    copier.launch(command)
    copier.wait_for(r"copied 50$", 40)
    broker.kill()
    copier.kill()
    broker.start()
    last = run(broker, "copy")
    proof = run(broker, "verify")

    assert last.returncode == 0, last.stdout + last.stderr
    assert proof.returncode == 0, proof.stdout
    assert f"once and in order: {COUNT} records" in proof.stdout


@pytest.mark.slow
@pytest.mark.client
def test_the_proof_finds_what_is_wrong(broker: SiltstoneProcess) -> None:
    """A record that came out twice, and those that never did."""
    run(broker, "fill", "--count", "6")
    copies = [b"invoice for 0", b"invoice for 0"]
    run(broker, "copy")
    Confluent(broker.bootstrap).write("wrong", "invoices", [(copies, True)])

    proof = run(broker, "verify")

    assert proof.returncode == 1
    assert "partition 0: 1 doubled, such as b'invoice for 0'" in proof.stdout
    assert "partition 1: 1 strange" in proof.stdout
