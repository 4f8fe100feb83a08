"""Traces system calls of a real process with strace, and makes them fail or take long."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.missing import require


@contextmanager
def injected(pid: int, output: Path, calls: str, what: str, path: Path) -> Iterator[None]:
    """Inject a fault into every call in ``calls`` that concerns ``path``, in all threads.

    ``what`` is strace's: ``error=EIO``, ``delay_enter=1000000`` (µs). Skips the test where a
    process may not be traced.
    """
    options = (f"--trace={calls}", f"--trace-path={path}", f"--inject={calls}:{what}")
    with traced(pid, output, *options):
        yield


@contextmanager
def traced(pid: int, output: Path, *options: str) -> Iterator[None]:
    """Trace all threads of a process, and the processes that it starts, into a file.

    Skips the test where a process may not be traced.
    """
    strace = Daemon(output)
    strace.launch([require("strace"), "--follow-forks", f"--attach={pid}", *options])
    try:
        strace.wait_for(rf"Process {pid} attached")
        _wait_for_threads(strace, pid)
    except RuntimeError:
        pytest.skip(f"strace: may not trace here ({strace.printed().strip()[-80:]})")
    try:
        yield
    finally:
        strace.signal(signal.SIGINT)
        assert strace.process is not None
        try:
            strace.process.wait(10)
        except subprocess.TimeoutExpired:
            strace.kill()


def _wait_for_threads(strace: Daemon, pid: int) -> None:
    """Wait until every present thread is traced."""
    count = len(list(Path(f"/proc/{pid}/task").iterdir()))
    if count > 1:
        strace.wait_for(rf"attached with {count} threads|(attached[\s\S]*){{{count}}}")
