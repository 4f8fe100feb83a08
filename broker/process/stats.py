"""Facts of the kernel about this process, each in a few microseconds.

The exporter's own process collector lists ``/proc/self/fd``, which holds the loop for milliseconds
when thousands of files are open; since Linux 6.2 the folder's size is their number.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import NamedTuple

_STATM = Path("/proc/self/statm")
_DESCRIPTORS = Path("/proc/self/fd")
_IO = Path("/proc/self/io")
_PAGE_BYTES = resource.getpagesize()


class DiskBytes(NamedTuple):
    """The bytes that the process caused disks to read and to write."""

    read: int
    written: int


def cpu_seconds() -> float:
    """Return user and system time of all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def virtual_bytes() -> int:
    """Return the size of the address space."""
    return int(_STATM.read_bytes().split()[0]) * _PAGE_BYTES


def resident_bytes() -> int:
    """Return the memory that is in RAM."""
    return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES


def open_descriptors() -> int:
    """Return how many file descriptors are open."""
    return _DESCRIPTORS.stat().st_size or sum(1 for _ in _DESCRIPTORS.iterdir())


def max_descriptors() -> int:
    """Return how many file descriptors may be open (the soft limit)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def disk_bytes() -> DiskBytes | None:
    """Return what went to and from disks; None where the kernel does not say it."""
    try:
        lines = _IO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = dict(line.split(": ") for line in lines)
    return DiskBytes(int(values["read_bytes"]), int(values["write_bytes"]))
