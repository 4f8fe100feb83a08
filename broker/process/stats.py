"""Facts of the kernel about this process, each in a few microseconds.

The exporter's own process collector lists ``/proc/self/fd``, which holds the loop for milliseconds
when thousands of files are open; since Linux 6.2 the size of this folder is the number of open
files.
"""

import resource
from typing import NamedTuple

from siltstone.storage import files
from siltstone.storage.files import disk

_STATM = "/proc/self/statm"
_DESCRIPTORS = "/proc/self/fd"
_IO = "/proc/self/io"
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
    return int(files.read_bytes(_STATM).split()[0]) * _PAGE_BYTES


def resident_bytes() -> int:
    """Return the memory that is in RAM."""
    return int(files.read_bytes(_STATM).split()[1]) * _PAGE_BYTES


def open_descriptors() -> int:
    """Return how many file descriptors are open."""
    return disk.stat(_DESCRIPTORS).st_size or len(disk.listdir(_DESCRIPTORS))


def max_descriptors() -> int:
    """Return how many file descriptors may be open (the soft limit)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def disk_bytes() -> DiskBytes | None:
    """Return the bytes read from and written to disks; None if the kernel does not report them."""
    try:
        lines = files.read_bytes(_IO).decode("ascii").splitlines()
    except OSError:
        return None
    values = dict(line.split(": ") for line in lines)
    return DiskBytes(int(values["read_bytes"]), int(values["write_bytes"]))
