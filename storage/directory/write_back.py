"""Starts write-back of dirty pages early, so that the kernel never has to throttle an append.

It is only a hint and makes nothing durable: it writes no metadata and waits for nothing.
"""

from siltstone.protocol.parts import HasFileno
from siltstone.storage.files import disk

_SYNC_FILE_RANGE_WRITE = 2


def start_write_back(file: HasFileno, position: int, size: int) -> bool:
    """Ask the kernel to begin writing a range of ``file``; true if it took the hint."""
    try:
        disk.sync_file_range(file.fileno(), position, size, _SYNC_FILE_RANGE_WRITE)
    except OSError:  # the file was deleted: nothing is left to write
        return False
    return True
