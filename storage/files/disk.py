"""The seam of the disk: every call with which the daemon reaches a file system.

A call has the name of its function in ``os``, and the same arguments, results and errors. Every
other module calls it as `disk.pread(...)`. So a test or a simulator that sets the functions of this
module, and `locked`, before it builds a broker, answers all calls.
Compiled code reads and writes by C until ``route.through = disk`` directs its calls here, too.
No other module knows whether the disk is a real one.
"""

import fcntl as _fcntl
import os
import stat as _stat
from pathlib import Path

from siltstone.storage.files import _disk

access = os.access
close = os.close
copy_file_range = os.copy_file_range
fallocate = _disk.fallocate
fcntl = _fcntl.fcntl
fstat = os.fstat
fsync = os.fsync
ftruncate = os.ftruncate
link = os.link
listdir = os.listdir
lockf = _fcntl.lockf
memfd_create = os.memfd_create
mkdir = os.mkdir
open = os.open  # noqa: A001  # as os has it
posix_fadvise = os.posix_fadvise
pread = os.pread
preadv = os.preadv
pwrite = os.pwrite
read = os.read
rename = os.rename
rmdir = os.rmdir
stat = os.stat
statvfs = os.statvfs
sync_file_range = _disk.sync_file_range
unlink = os.unlink
utime = os.utime
write = os.write


def scan(path: Path | str) -> dict[str, int]:
    """Return each name in a folder and its kind, as in ``st_mode``; links are not followed.

    This stands for ``os.scandir``, whose result is an object with calls of its own. The kind of
    anything but a file, a folder or a link is 0.
    """
    with os.scandir(path) as entries:
        return {each.name: _kind_of(each) for each in entries}


def _kind_of(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return _stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return _stat.S_IFDIR
    return _stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


locked: set[tuple[int, int]] = set()
"""Device and inode of files that this process has locked: a record lock does not keep it out."""
route = _disk.route
"""The way of the calls of compiled code; ``disk`` in ``through`` leads them through this module."""
