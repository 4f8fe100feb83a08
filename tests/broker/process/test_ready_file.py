"""The file that says where a broker listens."""

import json
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.waiting import wait_until


def test_it_is_there_while_the_broker_is_ready(siltstone: SiltstoneProcess, tmp_path: Path) -> None:
    """With the addresses that it has found, and gone when it has stopped."""
    path = tmp_path / "ready.json"
    path.write_text("of an earlier broker")
    command = [*siltstone.command("serve"), "--ready-file", str(path)]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "http.listener=127.0.0.1:0"]
    siltstone.daemon.launch(command)
    siltstone.daemon.wait_for(r"(^|\s)ready(\s|$)")
    facts = json.loads(
        wait_until(path.read_bytes, "the file", lambda text: text[:1] == b"{", despite=OSError)
    )

    address = siltstone.daemon.wait_for(r"listener=PLAINTEXT address=(\S+)")[1]
    assert facts["bootstrap_servers"] == address
    assert facts["listeners"] == [
        {
            "name": "PLAINTEXT",
            "security_protocol": "PLAINTEXT",
            "bound": address,
            "advertised": address,
        }
    ]
    assert facts["http"] == siltstone.daemon.wait_for(r"listener=http address=(\S+)")[1]
    assert facts["log_dirs"] == [str(siltstone.folder)]
    assert facts["pid"] == siltstone.daemon.pid
    assert siltstone.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize("name", ["missing/ready.json", "folder"])
def test_a_file_that_cannot_be_written_stops_the_start(
    siltstone: SiltstoneProcess, tmp_path: Path, name: str
) -> None:
    """A program that waits for it would wait for ever."""
    (tmp_path / "folder").mkdir()
    done = siltstone.run("serve", "--ready-file", str(tmp_path / name))

    assert done.returncode == 1
    assert f"siltstone: cannot write --ready-file {tmp_path / name}: " in done.stderr
