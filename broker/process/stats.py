"""What the kernel says about this process, each in a few microseconds.

The exporter's own process collector lists ``/proc/self/fd``, which holds the loop for milliseconds
when thousands of files are open; since Linux 6.2 the folder's size is their number.
"""

from __future__ import annotations

import resource
from pathlib import Path

_STATM = Path("/proc/self/statm")
_DESCRIPTORS = Path("/proc/self/fd")
_PAGE_BYTES = resource.getpagesize()


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
