"""Compiles ``load.c`` once per version of it and runs it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.frames import Frames

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parent
_FOR_EVER = 1e6
_SOURCES = ("load.c", "load.h", "floor.h", "play.h")


def cache_folder() -> Path:
    """Return the folder for what is made once: $SILTSTONE_CACHE, else .cache here."""
    return Path(os.environ.get("SILTSTONE_CACHE") or _ROOT / ".cache")


class Load:
    """The compiled generator. Every run is a process of its own."""

    def __init__(self) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise LookupError("cc: no C compiler; the load generator is written in C")
        sources = b"".join((_FOLDER / name).read_bytes() for name in _SOURCES)
        version = hashlib.sha256(sources).hexdigest()[:12]
        self._program = cache_folder() / "bench" / f"load-{version}"
        if not self._program.exists():
            self._program.parent.mkdir(parents=True, exist_ok=True)
            partial = self._program.with_suffix(f".{os.getpid()}")
            subprocess.run([compiler, "-O2", "-o", partial, _FOLDER / _SOURCES[0]], check=True)
            partial.replace(self._program)

    def run(self, mode: str, frames: Frames | None = None, **options: object) -> dict[str, Any]:
        """Run a mode to its end and return what it measured.

        Raises:
            RuntimeError: it failed; the message is what it said.
        """
        with self._command(mode, frames, options) as command:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if result.get("errors"):
            raise RuntimeError(f"{' '.join(command)}: {result['errors']} refusals, {done.stderr}")
        if result.get("requests") == 0:
            raise RuntimeError(f"{' '.join(command)}: not one answer in {result['seconds']} s")
        return result

    @contextlib.contextmanager
    def running(
        self, mode: str, frames: Frames, **options: object
    ) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """Run a mode in the background; yield the process and the first line it prints."""
        with self._command(mode, frames, options) as command:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            try:
                yield process, _first_line(process.stdout)
            finally:
                process.kill()
                process.communicate()

    @contextlib.contextmanager
    def playing(self, frames: Frames, **options: object) -> Iterator[None]:
        """Play scripts in the background until the end of the block."""
        options = {"warmup": 0, "seconds": _FOR_EVER, **options}
        with self._command("play", frames, options) as command:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                yield
                if process.poll() is not None:
                    raise RuntimeError(
                        "the load in the background ended before its time; see above"
                    )
            finally:
                process.kill()
                process.communicate()

    @contextlib.contextmanager
    def _command(
        self, mode: str, frames: Frames | None, options: dict[str, object]
    ) -> Iterator[list[str]]:
        with tempfile.NamedTemporaryFile() as file:
            words = {**options}
            if frames is not None:
                file.write(frames.data)
                file.flush()
                words |= {"frames": file.name, **frames.positions}
            yield [str(self._program), mode, *(f"{name}={value}" for name, value in words.items())]


def _first_line(stream: IO[str] | None) -> str:
    line = stream.readline() if stream else ""
    if not line:
        raise RuntimeError("the load generator ended before it began; see above")
    return line.strip()
