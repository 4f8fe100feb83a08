"""A disk that fails when a test says so; it replaces the functions of the disk's seam.

Threads of the broker under test call it too.
"""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from siltstone.storage.files import disk as seam

REAL = {name: call for name, call in vars(seam).items() if callable(call)}
"""The calls of the seam, as they are while no test has replaced one."""

BY_DESCRIPTOR = frozenset(
    {"pwrite", "fsync", "ftruncate", "fallocate", "pread", "preadv", "fstat", "copy_file_range"}
)
BY_PATH = frozenset({"open", "create", "rename", "unlink", "mkdir", "rmdir", "stat"})
WRITES = ("pwrite", "create", "mkdir")
"""The calls that a full disk refuses; existing names can still be renamed and unlinked."""

ALWAYS = sys.maxsize


class Killed(BaseException):
    """The process ends at a call: nothing that it would do later happens."""


@dataclass(slots=True)
class Fault:
    """Calls of one kind that fail: ``times`` of them after the first ``after``.

    ``path`` is a part of the names of the files. With ``short`` a write writes half of its bytes
    instead, without an error. Each call first waits ``seconds``, without the GIL; with ``error`` 0
    it only waits.
    """

    call: str
    error: int = errno.EIO
    path: str = ""
    after: int = 0
    times: int = ALWAYS
    short: bool = False
    seconds: float = 0.0
    hits: int = 0

    def strikes(self, call: str, path: str) -> bool:
        """Tell whether this is one of the calls, and count it."""
        if call != self.call or self.path not in path:
            return False
        self.hits += 1
        return self.after < self.hits <= self.after + self.times


@dataclass(slots=True)
class Kill(Fault):
    """A call at which the process ends: `Killed` leaves it."""

    def strikes(self, call: str, path: str) -> bool:
        """Raise if this is the call."""
        if Fault.strikes(self, call, path):
            raise Killed
        return False


@dataclass(slots=True)
class Disk:
    """The planned faults, and the calls so far: pairs of a kind and a path."""

    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    _left_out: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, call: str, error: int = errno.EIO, path: str = "", **more: Any) -> Fault:
        """Let calls fail from now on."""
        fault = Fault(call, error, path, **more)
        self.faults.append(fault)
        return fault

    def fill(self, error: int = errno.ENOSPC, path: str = "") -> None:
        """Fail all calls that need new room."""
        for call in WRITES:
            self.fail(call, error, path)

    def mend(self) -> None:
        """Fail no more."""
        self.faults.clear()

    def leave_out(self, *calls: str) -> None:
        """Let calls succeed without being made, for tests that make thousands of fsyncs."""
        self._left_out.update(calls)

    def names(self, *kinds: str) -> list[str]:
        """Return the calls of some kinds as "kind name", in order."""
        return [f"{kind} {Path(path).name}" for kind, path in self.calls if kind in kinds]

    def __getattr__(self, name: str) -> Any:
        real = REAL[name]
        if name in BY_DESCRIPTOR or name in BY_PATH:
            return self._wrap(name, real)
        return real

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **named: Any) -> Any:
            if name in BY_DESCRIPTOR:
                path = path_of(target)
            else:
                folder = named.pop("dir_fd", None)
                if folder is not None:
                    target = os.path.join(path_of(folder), target)  # noqa: PTH118
                path = os.fspath(target)
            kind = "create" if name == "open" and rest[0] & os.O_CREAT else name
            fault = self._strike(kind, path)
            if fault is None:
                if name in self._left_out:
                    return None
                return self._make(kind, partial(real, **named), path, target, *rest)
            if fault.seconds:
                time.sleep(fault.seconds)
            if fault.short:
                half = memoryview(rest[0])[: len(rest[0]) // 2]
                return self._make(kind, real, path, target, half, *rest[1:])
            if fault.error:
                raise OSError(fault.error, os.strerror(fault.error), path)
            return self._make(kind, partial(real, **named), path, target, *rest)

        return call

    def _make(self, kind: str, real: Callable[..., Any], path: str, *given: Any) -> Any:
        """Make a call that does not fail; a subclass may record it."""
        return real(*given)

    def _strike(self, kind: str, path: str) -> Fault | None:
        with self._lock:
            self.calls.append((kind, path))
            return next((fault for fault in self.faults if fault.strikes(kind, path)), None)


def install(monkeypatch: pytest.MonkeyPatch, disk: Disk | None = None) -> Disk:
    """Replace the seam's functions by a disk, by default one without faults."""
    disk = disk or Disk()
    for name in REAL:
        monkeypatch.setattr(seam, name, getattr(disk, name))
    monkeypatch.setattr(seam.route, "through", seam)
    return disk


def replace_pwrite(monkeypatch: pytest.MonkeyPatch, pwrite: Callable[..., Any]) -> None:
    """Make all writes by ``pwrite``."""
    monkeypatch.setattr(seam, "pwrite", pwrite)
    monkeypatch.setattr(seam.route, "through", seam)


def path_of(fd: int) -> str:
    """Return where an open file is, or was when it was deleted."""
    return os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")  # noqa: PTH115
