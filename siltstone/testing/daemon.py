"""The broker's process: starts it on reserved ports, kills it, pauses it and starts it again."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from siltstone.testing.errors import AskedInVain, StartFailed
from siltstone.testing.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__tracebackhide__ = True
HOST: Final = "127.0.0.1"
NOT_RUNNING: Final = "the broker does not run; restart() starts it"
_CHILD: Final = os.path.join(os.path.dirname(__file__), "child.py")  # noqa: PTH118, PTH120
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.002
_LAST_LINES: Final = 10
_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",  # a group of one need not wait for others
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "0",
}
"""Settings that suit a test better than Kafka's defaults."""

_ADDRESSES: Final = {"listeners": f"PLAINTEXT://{HOST}:0", "http.listener": f"{HOST}:0"}
_ANY_PORT: Final = re.compile(r":0(?=\s*(,|$))")


class Daemon:
    """A broker's process, and its folder and ports, which outlive it (one thread at a time).

    Sockets of the test's process hold the ports without listening, so that no other process gets a
    port while no broker runs.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path | None = None) -> None:
        """Get a folder, and a port for each address that the settings leave open.

        Raises:
            StartFailed: There is no folder or no port.
        """
        self._own: Folder | None = None
        self._held: list[socket.socket] = []
        self.facts: dict[str, Any] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        try:
            if folder is None:
                self._own = Folder()
                folder = self._own.path
            folder.mkdir(parents=True, exist_ok=True)
            addresses = {
                name: _ANY_PORT.sub(self._take_port, settings.get(name, open_to_all))
                for name, open_to_all in _ADDRESSES.items()
            }
        except OSError as error:
            self.close()
            raise StartFailed(_why_nothing(folder, error)) from None
        self.folder = folder
        self.log = folder / "siltstone.log"
        self._ready_file = folder / "ready.json"
        self._settings = {
            **_SETTINGS,
            "log.dirs": str(folder / "data"),
            **settings,
            **addresses,
        }

    @property
    def is_running(self) -> bool:
        """Tell whether the process lives, paused or not."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process; `wait` returns when it is ready."""
        self.is_paused = False
        sets = [word for item in self._settings.items() for word in ("--set", "=".join(item))]
        self._ready_file.unlink(missing_ok=True)
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(  # noqa: S603  # our own module
                [
                    *(sys.executable, "-P", _CHILD),
                    "" if self._own is None else str(self._own.path),
                    *("serve", "--ready-file", str(self._ready_file)),
                    *("--test-clock", "--test-faults", *sets),
                ],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=_environ(),
                # Ctrl-C is for the tests. If the tests are killed while the broker is paused, the
                # kernel continues the broker, since its process group is orphaned then.
                process_group=0,
            )

    def wait(self) -> None:
        """Return when the broker serves.

        Raises:
            StartFailed: The process ended, or was not ready in time.
        """
        assert self.process is not None  # noqa: S101  # launched
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            with suppress(FileNotFoundError):
                self.facts = json.loads(self._ready_file.read_bytes())
                return
            if self.process.poll() is not None:
                code = self.process.returncode
                raise StartFailed(f"the broker ended with exit code {code}; {self._last_lines()}")
            time.sleep(_LOOK_SECONDS)
        self.kill()
        raise StartFailed(
            f"the broker was not ready after {_START_SECONDS:g} s; {self._last_lines()}"
        )

    def pause(self) -> None:
        """Pause the process; on return it does nothing any more.

        Raises:
            AskedInVain: The process has ended.
        """
        process = self._living()
        self.is_paused = True
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused process go on.

        Raises:
            AskedInVain: The process has ended.
        """
        self._living().send_signal(signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        """End the process by SIGKILL: nothing is flushed or marked as clean. Idempotent."""
        if self.process is not None:
            self.process.kill()
            self._forget(self.process)

    def stop(self) -> None:
        """Stop the process cleanly, if it runs."""
        if self.is_running:
            process = self._living()
            process.send_signal(signal.SIGCONT)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
        self.kill()

    def close(self) -> None:
        """End the process and release its folder and ports. Idempotent."""
        if self._own is None:
            self.stop()  # a caller that named the folder may want to look into it
        else:
            self.kill()
            self._own.remove()
        for held in self._held:
            held.close()

    def _take_port(self, _: re.Match[str]) -> str:
        self._held.append(_hold_port())
        return f":{self._held[-1].getsockname()[1]}"

    def _living(self) -> subprocess.Popen[bytes]:
        if self.process is None or not self.is_running:
            raise AskedInVain(NOT_RUNNING)
        return self.process

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self.process = None

    def log_size(self) -> int:
        """Return how many bytes have been logged so far."""
        return self.log.stat().st_size

    def lines_behind(self, position: int) -> list[str]:
        """Return the lines that were logged after the log had a size."""
        with self.log.open("rb") as log:
            log.seek(position)
            return log.read().decode("utf-8", "replace").splitlines()

    def _last_lines(self) -> str:
        lines = self.lines_behind(0)
        if not lines:
            return "it printed nothing"
        return "\n".join(["the last lines of its log are", *lines[-_LAST_LINES:]])


def _hold_port() -> socket.socket:
    """Return a socket that holds a free port without listening, so that the broker can listen."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((HOST, 0))
    except OSError:
        held.close()
        raise
    return held


def _why_nothing(folder: Path | None, error: OSError) -> str:
    if error.filename is not None:
        return f"the broker has no folder: {folder} cannot be made ({error.strerror}); name another"
    return (
        f"the broker has no port: none is free on {HOST} ({error.strerror}); end what holds them, "
        "see ss --tcp --all"
    )


def _environ() -> dict[str, str]:
    """Return the environment without variables that would set the broker's settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith(("SILTSTONE_", "KAFKA_")) or name == "CLUSTER_ID")
    }
