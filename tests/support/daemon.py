"""A server process: its output goes into a file, tests wait for patterns, signals end it."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.support.waiting import PATIENCE, wait_until


class Daemon:
    """One process at a time; each start appends to the same output file.

    The process dies with its parent (setpriv), so a killed test run leaves nothing behind.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self.process: subprocess.Popen[bytes] | None = None
        self._seen_from = 0
        self._is_group = False

    def launch(
        self,
        command: Sequence[str],
        *,
        environ: dict[str, str] | None = None,
        is_group: bool = False,
    ) -> None:
        """Start the command; what an earlier process printed is no longer searched.

        With ``is_group`` its child processes share its process group, and `kill` ends all.
        """
        if self.running:
            raise RuntimeError(f"{command[0]} runs already as process {self.pid}")
        self._seen_from = self.output.stat().st_size if self.output.exists() else 0
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self.output.open("ab") as sink:
            self.process = subprocess.Popen(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environ,
                process_group=0 if is_group else None,
            )
        self._is_group = is_group

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running process."""
        if self.process is None:
            raise RuntimeError("nothing was started")
        return self.process.pid

    def printed(self) -> str:
        """Return what the current process has printed so far."""
        return _tail(self.output, self._seen_from)

    def wait_for(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Return the first match in what the current process prints.

        Raises:
            RuntimeError: it ended first.
            TimeoutError: it printed no such thing in `timeout` seconds.
        """
        wanted = re.compile(pattern, re.MULTILINE)

        def search() -> str:
            ended = not self.running
            printed = self.printed()
            if ended and not wanted.search(printed):
                raise RuntimeError(f"it ended before printing {pattern!r}:\n{printed}")
            return printed

        match = wanted.search(
            wait_until(search, f"{pattern!r} in its output", wanted.search, timeout=timeout)
        )
        assert match is not None
        return match

    def signal(self, number: int) -> None:
        """Send a signal to the running process."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power switch would (SIGKILL), and wait until it is gone."""
        if self.process is not None:
            if self._is_group:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout: float = PATIENCE) -> int:
        """Ask it to stop (SIGTERM) and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        if self.process is None:
            raise RuntimeError("nothing was started")
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout)


def _tail(path: Path, start: int) -> str:
    with path.open("rb") as stream:
        return _rest(stream, start)


def _rest(stream: IO[bytes], start: int) -> str:
    stream.seek(start)
    return stream.read().decode(errors="replace")
