"""`siltstone serve` as a real process on a free port, with its data in a folder of the test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.daemon import Daemon
from tests.support.ports import free_ports
from tests.support.programs import run_to_end
from tests.support.waiting import PATIENCE

ADDRESS = r"listening listener={} address=(\S+)"
READY = r"(^|\s)ready(\s|$)"


def siltstone() -> str:
    """Return the path of the console script that the tests run.

    Raises:
        FileNotFoundError: the package is not installed in this environment.
    """
    beside = Path(sys.executable).parent / "siltstone"
    found = str(beside) if beside.exists() else shutil.which("siltstone")
    if found is None:
        raise FileNotFoundError("siltstone is not installed here; run make setup")
    return found


def a_process(
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[str], object] | None = None,
    scope: Literal["module", "package"] = "module",
) -> Any:
    """Return a fixture: a running broker process; ``prepare`` gets its address."""

    @pytest.fixture(scope=scope)
    def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
        made = SiltstoneProcess(tmp_path_factory.mktemp("broker"), settings).start()
        if prepare is not None:
            prepare(made.bootstrap)
        yield made
        made.close()

    return process


class SiltstoneProcess:
    """One broker folder and the process that serves it.

    Each start on the same object takes the same free ports, so that clients find the broker where
    it was.
    """

    def __init__(
        self,
        root: Path,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.folder = root / "data"
        self.daemon = Daemon(root / "siltstone.log")
        self.settings = dict(settings or {})
        self.environ = dict(environ or {})
        self.program = [siltstone()]
        self.listener, self.http = (f"127.0.0.1:{port}" for port in free_ports(2))

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return self.listener

    @property
    def resident_bytes(self) -> int:
        """The private memory of the running process, without pages of files."""
        status = Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024

    def command(self, *arguments: str) -> list[str]:
        """Return `siltstone ARGUMENTS` with the settings of this broker."""
        settings = {
            "listeners": f"PLAINTEXT://{self.listener}",
            "http.listener": self.http,
            "log.dirs": str(self.folder),
            **self.settings,
        }
        sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return [*self.program, *arguments, *sets]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command with the settings of this broker to its end."""
        command = self.command(*arguments)
        return run_to_end(command)

    def start(self, timeout: float = PATIENCE) -> "SiltstoneProcess":
        """Start it and return when it says that it is ready."""
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", **self.environ}
        self.daemon.launch(self.command("serve"), environ=environ)
        self.daemon.wait_for(READY, timeout)
        self.listener = self.daemon.wait_for(ADDRESS.format("PLAINTEXT"))[1]
        self.http = self.daemon.wait_for(ADDRESS.format("http"))[1]
        return self

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM; return the exit code."""
        return self.daemon.terminate(timeout)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is marked clean."""
        self.daemon.kill()

    def restart(self) -> "SiltstoneProcess":
        """Stop cleanly and start again on the same folder and port."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it if it still runs."""
        if self.daemon.running:
            self.kill()
