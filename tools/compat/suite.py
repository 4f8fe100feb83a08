"""A public test suite: it is fetched, built, and then run one test at a time."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import ClassVar, Protocol

from tests.support.kafka import cache_folder


class Outcome(Enum):
    """How one test of a suite went; a test that skips itself has not passed."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Suite(Protocol):
    """A suite of one release of one client, pinned by the digest of its archive."""

    settings: ClassVar[Mapping[str, str] | None]  # the broker's; None: it starts its own

    @property
    def name(self) -> str:
        """Its name on the command line, and of its allow-list."""

    def build(self) -> None:
        """Fetch the sources into the cache and build them, unless that is done already.

        Raises:
            LookupError: a tool is missing, or a source does not have the pinned digest.
        """

    def tests(self) -> list[str]:
        """Return the names of all tests to run, in order; call `build` before."""

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run one test against the broker at an address; what it prints goes into the log."""


def cached(name: str) -> Path:
    """Return the folder in the cache for one release of one suite; create it if need be."""
    folder = cache_folder().resolve() / "compat" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tool(name: str, debian: str) -> str:
    """Return the path of a program.

    Raises:
        LookupError: it is not installed; the message says which package brings it.
    """
    found = shutil.which(name)
    if found is None:
        raise LookupError(f"{name}: not on the PATH (Debian: apt-get install {debian})")
    return found


def prepare(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run one step of a build and return its standard output.

    Raises:
        LookupError: it failed; the message ends with what it printed last.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LookupError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def unpack(archive: Path, sha256: str, folder: Path) -> None:
    """Unpack a tar archive into a folder if it is the pinned one.

    Raises:
        LookupError: its SHA-256 differs.
    """
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise LookupError(f"{archive}: its SHA-256 is {found}, pinned is {sha256}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def execute(
    command: Sequence[str], log: Path, *, cwd: Path, environ: Mapping[str, str], timeout: float
) -> int | None:
    """Run a test's process group to its end; return its exit code, or None if it took too long."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):  # no process of the group is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
