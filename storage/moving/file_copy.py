"""Copies a range of one file into another, by the kernel where possible (copy_file_range).

If the kernel copies, no byte passes through this process, file systems that can share blocks do so,
and the GIL is free meanwhile. This module makes nothing durable.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from siltstone.storage import files
from siltstone.storage.files import disk

_NOT_BY_KERNEL: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}
)
_CHUNK: Final = 1 << 18


class SourceUnreadable(OSError):  # noqa: N818  # whose fault it is, in two words
    """Reading the source failed, not writing the copy."""


@contextmanager
def reading_source() -> Iterator[None]:
    """Turn an OSError in the block into `SourceUnreadable`.

    Raises:
        SourceUnreadable: Instead of any other OSError.
    """
    try:
        yield
    except OSError as error:
        raise SourceUnreadable(error.errno, str(error.strerror), error.filename) from error


def copy_range(source: int, target: int, position: int, size: int) -> None:
    """Copy ``size`` bytes at ``position`` of an open file to the same place in another. Blocks.

    Raises:
        SourceUnreadable: The bytes cannot be read, or there are too few.
        OSError: The other file cannot be written.
    """
    done = 0
    while done < size:
        try:
            count = disk.copy_file_range(
                source, target, size - done, position + done, position + done
            )
        except OSError as error:
            if error.errno in _NOT_BY_KERNEL:
                _copy_through(source, target, position + done, size - done)
                return
            # This raises SourceUnreadable if the source fails, not the copy.
            _read(source, position + done, min(size - done, _CHUNK))
            raise
        if not count:
            raise _too_short(position + done)
        done += count


def _copy_through(source: int, target: int, position: int, size: int) -> None:
    """Copy through this process, for file systems between which the kernel does not copy."""
    end = position + size
    while position < end:
        data = _read(source, position, min(end - position, _CHUNK))
        files.write_all(target, data, position)
        position += len(data)


def _read(source: int, position: int, size: int) -> bytes:
    with reading_source():
        data = disk.pread(source, size, position)
    if not data:
        raise _too_short(position)
    return data


def _too_short(position: int) -> SourceUnreadable:
    return SourceUnreadable(errno.EIO, f"the file ends at {position}, before its last batch")
