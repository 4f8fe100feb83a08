"""Names of the files, and the only place that creates, renames, fsyncs and unlinks them.

Everything that has to survive a crash goes through these functions. They are built of the calls in
`disk`, the seam: where another disk stands in its place they work on that one. No link is followed:
what it leads to is not ours. A log directory itself may be one. The content of a named file changes
only by `replace_file`: temporary file, fsync, rename, fsync of the directory (KAFKA-16541,
KAFKA-3968).
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from siltstone.storage.files import disk
from siltstone.storage.randomness import random_bytes

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The files of a segment, in the order in which they are renamed: the ``.log`` goes first."""

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
TEMPORARY = ".tmp"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
FSYNC_FAILED = ".siltstone-fsync-failed"
ROOM = ".siltstone-room"
PINS = ".pins"
MOVED = ".siltstone-moved"
CONTROL_TOKEN = ".siltstone-control-token"  # noqa: S105  # its place, not the secret
CONTROL_ADDRESS = ".siltstone-control-address"
CONTROL_CERTIFICATE = ".siltstone-control-certificate"
USERS = "siltstone-users.json"
ACLS = "siltstone-acls.json"
QUOTAS = "siltstone-quotas.json"

MAX_OFFSET = (1 << 63) - 1 - (1 << 32)
"""The largest offset: above it an offset plus the records of a batch might not fit an int64."""

Look = tuple[int, int, int]
"""Facts that change when a file does: which file it is, its time, its size."""

FILE_MODE = 0o644
_FOLDER_MODE = 0o755
_FALLOCATE_KEEP_SIZE = 1
_OFFSET_DIGITS = 20
_SMALL = 1 << 12
_CHUNK = 1 << 20
_WHOLE_BYTES = 1 << 28
_ROOM_CHUNK = 1 << 16


class FsyncFailed(OSError):  # noqa: N818  # what happened, in two words
    """An fsync failed: parts of the file may not be on the disk, and no later fsync tells."""


class SegmentName(NamedTuple):
    """The parts of a file's name in a partition folder."""

    base_offset: int
    kind: str
    suffix: str


def segment_file_name(base_offset: int, kind: str = LOG, suffix: str = "") -> str:
    """Return the name of a segment's file or of a snapshot: ``00000000000000000042.log.swap``."""
    return f"{base_offset:020d}{kind}{suffix}"


def parse_name(name: str) -> SegmentName | None:
    """Return the parts of the name of a segment's file or of a snapshot; None if it is neither."""
    digits, dot, rest = name.partition(".")
    if not dot or not digits.isascii() or not digits.isdigit():
        return None
    kind, dot, suffix = rest.partition(".")
    if "." + kind not in {*SEGMENT_KINDS, SNAPSHOT}:
        return None
    if dot + suffix not in {"", CLEANED, SWAP, DELETED}:
        return None
    if len(digits) > _OFFSET_DIGITS or int(digits) > MAX_OFFSET:
        return None
    return SegmentName(int(digits), "." + kind, dot + suffix)


def create_folder(path: Path, *, durably: bool = True) -> None:
    """Create a folder and make its name durable; one that exists is fine.

    Only its owner may change names in it, whatever umask the process has.
    """
    with suppress(FileExistsError):
        disk.mkdir(path, _FOLDER_MODE)
    if durably:
        fsync_directory(path.parent)


def create_file(path: Path, mode: int = FILE_MODE) -> int:
    """Create an empty file, or empty the old one; return a descriptor to read and write it.

    A link is replaced.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return disk.open(path, flags, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    unlink(path)
    return disk.open(path, flags, mode)


def list_folder(path: Path) -> set[str]:
    """Return the names in a folder whose files are all ours.

    Raises:
        OSError: It cannot be read, or it or something in it is a link.
    """
    if is_link(path):
        raise _is_link(path)
    found = disk.scan(path)
    for name, kind in found.items():
        if kind == stat.S_IFLNK:
            raise _is_link(path / name)
    return set(found)


def list_names(folder: Path | int) -> list[str]:
    """Return the names in a folder, or in one that is open, whatever they are, in no order.

    Raises:
        OSError: It is missing, or cannot be read.
    """
    return disk.listdir(folder)


def _is_link(path: Path | str) -> OSError:
    return OSError(errno.ELOOP, "it is a link, which is not followed", str(path))


def find_size(path: str) -> int | None:
    """Return the size of a file, None if it is missing.

    Takes a str: a start asks thousands of times.

    Raises:
        OSError: Something else has that name, or it cannot be looked at.
    """
    try:
        status = disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    _check_regular(status, path)
    return status.st_size


def find_identity(path: Path | str, folder: int | None = None) -> tuple[int, int]:
    """Return device and inode of a file or folder, or of a name in an open folder."""
    found = disk.stat(path, dir_fd=folder)
    return found.st_dev, found.st_ino


def open_file(path: Path | str, *, write: bool = False, create: bool = False) -> int:
    """Return a descriptor of a file, creating a missing one if so asked.

    Where a pipe stands in its place this does not wait for the other end.

    Raises:
        OSError: It is missing or cannot be opened, is a link, or is to be written and is a pipe or
            a device.
    """
    mode = os.O_RDWR if write or create else os.O_RDONLY
    flags = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        fd = disk.open(path, mode | flags, FILE_MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_link(path) from None
        raise
    if write:
        try:
            _check_regular(disk.fstat(fd), path)
        except OSError:
            disk.close(fd)
            raise
    return fd


def _check_regular(status: os.stat_result, path: Path | str) -> None:
    _check_no_folder(status, path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _check_no_folder(status: os.stat_result, path: Path | str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def read_whole(path: Path) -> bytes:
    """Return the content of a file that is small, or should be.

    Raises:
        OSError: It is missing, cannot be read, is a link, a pipe, a device or a folder, or is far
            too large: then it is not ours.
    """
    fd = open_file(path)
    try:
        status = disk.fstat(fd)
        _check_regular(status, path)
        if status.st_size > _WHOLE_BYTES:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes are no such file", str(path))
        return _read_rest(fd, status)
    finally:
        disk.close(fd)


def read_bytes(path: Path | str) -> bytes:
    """Return the content of a file of any size and kind; a link is followed.

    Raises:
        OSError: It is missing or cannot be read.
    """
    with opened(path) as fd:
        status = disk.fstat(fd)
        _check_no_folder(status, path)
        return _read_rest(fd, status)


@contextmanager
def opened(path: Path | str) -> Iterator[int]:
    """Yield the descriptor of a file to read, of any kind; a link is followed.

    Raises:
        OSError: It is missing or cannot be opened.
    """
    fd = disk.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        disk.close(fd)


def read_checked(
    path: Path | str,
    check: Callable[[os.stat_result], None],
    limit: int = sys.maxsize,
    *,
    follow: bool = False,
) -> bytes:
    """Return the first ``limit`` bytes of a file, after its status has passed ``check``.

    Where a pipe stands in its place this does not wait for the other end.

    Raises:
        OSError: It is missing, cannot be read, or is a link that is not to be followed.
        Exception: The check raises it.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    fd = disk.open(path, flags)
    try:
        status = disk.fstat(fd)
        check(status)
        return _read_rest(fd, status, limit)
    finally:
        disk.close(fd)


def _read_rest(fd: int, status: os.stat_result, limit: int = sys.maxsize) -> bytes:
    """Return all from the present position of an open file on, up to a limit."""
    most = max(status.st_size, _SMALL) + 1  # of some files the status has no size
    parts = []
    while limit and (data := disk.read(fd, min(most, limit))):
        parts.append(data)
        limit -= len(data)
    return b"".join(parts)


def size_of(fd: int) -> int:
    """Return the size of an open file."""
    return disk.fstat(fd).st_size


def read_text(path: Path) -> str:
    """Return the text of a file that is small, or should be, with ends of lines as Unix has them.

    Raises:
        OSError: As of `read_whole`.
        UnicodeDecodeError: It is not UTF-8.
    """
    return read_whole(path).decode().replace("\r\n", "\n")


def write_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of ``data`` at ``position``, in several calls if the kernel takes only a part."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        written = disk.pwrite(fd, view[done:], position + done)
        if not written:
            raise OSError(errno.ENOSPC, "the disk took no bytes")
        done += written


def close(fd: int) -> None:
    """Give a descriptor back."""
    disk.close(fd)


def truncate(fd: int, size: int) -> None:
    """Cut an open file to ``size`` bytes."""
    disk.ftruncate(fd, size)


def preallocate(fd: int, size: int) -> None:
    """Reserve room on the disk for an open file without changing its size.

    Kafka makes the file that large, and readers then meet a tail of zeros. A file system that
    cannot reserve does nothing.

    Raises:
        OSError: The disk does not have the room.
    """
    try:
        disk.fallocate(fd, _FALLOCATE_KEEP_SIZE, 0, size)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.ENOSYS}:
            raise


def set_modified(path: Path, modified_ns: int) -> None:
    """Set the modification time of a file, in ns since the epoch."""
    disk.utime(path, ns=(modified_ns, modified_ns))


def fsync(fd: int) -> None:
    """Wait until an open file's bytes and size are on the disk.

    Raises:
        FsyncFailed: They may never be, even if a later call succeeds.
    """
    try:
        disk.fsync(fd)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}") from error


def fsync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; a folder that is gone needs none."""
    try:
        fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # renamed or deleted meanwhile, and fsynced by that (KAFKA-15391)
    try:
        fsync(fd)
    finally:
        disk.close(fd)


def rename(old: Path, new: Path) -> None:
    """Rename a file or folder, replacing a file of that name; the caller fsyncs the directory."""
    disk.rename(old, new)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Yield a folder's descriptor; files in it are then found without walking its path."""
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        disk.close(fd)


def link(old: str, new: str, source: int, target: int) -> None:
    """Link a file of one open folder into another one, for a pin.

    Nothing is made durable.
    """
    disk.link(old, new, src_dir_fd=source, dst_dir_fd=target)


def write_in_folder(name: str, data: bytes, folder: int) -> None:
    """Create a file in an open folder. Nothing is made durable.

    Raises:
        FileExistsError: The name exists; it may be a link to a file in use.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = disk.open(name, flags, FILE_MODE, dir_fd=folder)
    try:
        write_all(fd, data, 0)
    finally:
        disk.close(fd)


def unlink(path: Path) -> None:
    """Delete a file, if it exists (KAFKA-6624)."""
    with suppress(FileNotFoundError):
        disk.unlink(path)


def exists(path: Path, *, follow: bool = True) -> bool:
    """Tell whether a path exists, or what it links to; without ``follow`` the link counts.

    Raises:
        OSError: It cannot be told. ``Path.exists`` answers no then, since Python 3.14.
    """
    try:
        disk.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(path: Path | str) -> bool:
    """Tell whether a path leads to a folder.

    Raises:
        OSError: It cannot be told.
    """
    return _has_kind(path, stat.S_ISDIR)


def is_file(path: Path | str) -> bool:
    """Tell whether a path leads to a regular file.

    Raises:
        OSError: It cannot be told.
    """
    return _has_kind(path, stat.S_ISREG)


def is_link(path: Path | str) -> bool:
    """Tell whether a path is a link.

    Raises:
        OSError: It cannot be told.
    """
    return _has_kind(path, stat.S_ISLNK, follow=False)


def _has_kind(path: Path | str, is_kind: Callable[[int], bool], *, follow: bool = True) -> bool:
    try:
        return is_kind(disk.stat(path, follow_symlinks=follow).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a path with a zero byte
        return False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def remove_folder(path: Path, *, durably: bool = True) -> None:
    """Delete a folder with everything in it, if it exists; of a link, the link."""
    if is_link(path):
        unlink(path)
    elif exists(path):
        with suppress(FileNotFoundError):
            _remove_tree(path)
    if durably:
        fsync_directory(path.parent)


def _remove_tree(path: Path | str, parent: int | None = None) -> None:
    """Delete a folder, which may be a name in an open one, with everything in it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = disk.open(path, flags, dir_fd=parent)
    try:
        for name in sorted(disk.listdir(folder)):
            with suppress(FileNotFoundError):
                try:
                    disk.unlink(name, dir_fd=folder)
                except IsADirectoryError:
                    _remove_tree(name, folder)
    finally:
        disk.close(folder)
    disk.rmdir(path, dir_fd=parent)


def deleted_name(path: Path) -> Path:
    """Return the name under which the next start deletes a file."""
    return path.with_name(path.name + DELETED)


def mark_deleted(path: Path) -> Path:
    """Rename a file, if it exists, so that the next start deletes it; return its new name."""
    marked = deleted_name(path)
    with suppress(FileNotFoundError):  # it is deleted already
        rename(path, marked)
    return marked


def replace_file(path: Path, data: bytes, *, durable: bool = True, mode: int = FILE_MODE) -> None:
    """Give a file new content, so that a crash leaves the old one or the new one, whole. Blocks.

    Without ``durable`` nothing is fsynced, and a power failure may leave an empty file: for files
    that their reader checks and can do without. With a ``mode`` other than the usual one other
    users cannot read the file at any moment: the remains of an earlier try are removed.

    Raises:
        OSError: The old file has its name still; only if the fsync of the folder failed the new
            one may have it.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    if mode != FILE_MODE:
        unlink(temporary)
    with ExitStack() as opened:
        folder = opened.enter_context(open_folder(path.parent)) if durable else -1
        fd = create_file(temporary, mode)
        try:
            try:
                write_all(fd, data, 0)
                if durable:
                    fsync(fd)
            finally:
                disk.close(fd)
            rename(temporary, path)
        except OSError:
            with suppress(OSError):  # half a file takes room on a full disk
                unlink(temporary)
            raise
        if durable:
            fsync(folder)


def put_back(path: Path, content: bytes | None, mode: int = FILE_MODE) -> None:
    """Have the old content of a file again, or none, after `replace_file` has failed. Blocks.

    The new one may have its name already. An old file that still has it stays, and it is never
    replaced by a file that is not on the disk: a power failure would leave half a file. A disk that
    does not take that is left as it is.
    """
    with suppress(OSError):
        if content is None:
            unlink(path)
        elif read_whole(path) != content:
            replace_file(path, content, mode=mode)


def write_again(path: Path) -> None:
    """Write all bytes of a file once more in their place, and wait for the disk. Blocks.

    After a failed fsync the kernel may take pages for written that the disk lacks. Written again,
    they go there. Pages that it has dropped are read from the disk for that, so a scan finds what
    is lost.

    Raises:
        FsyncFailed: The disk still does not take them.
    """
    fd = open_file(path, write=True)
    try:
        position = 0
        while data := disk.pread(fd, _CHUNK, position):
            write_all(fd, data, position)
            position += len(data)
        fsync(fd)
    finally:
        disk.close(fd)


def note_failed_fsync(directory: Path) -> None:
    """Leave a mark for the next start, if the disk takes it."""
    with suppress(OSError):
        disk.close(create_file(directory / FSYNC_FAILED))
        fsync_directory(directory)


def find_room(directory: Path) -> tuple[int, int]:
    """Return how many bytes are free for us on the disk below a directory, and how many it has.

    Raises:
        OSError: The disk does not say.
    """
    system = disk.statvfs(directory)
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


def try_room(directory: Path, size: int) -> None:
    """Write a file of ``size`` random bytes, which cannot be compressed, and delete it.

    Raises:
        OSError: The directory does not take it.
    """
    path = directory / ROOM
    data = random_bytes(_ROOM_CHUNK)
    fd = create_file(path)
    try:
        for position in range(0, size, _ROOM_CHUNK):
            write_all(fd, data, position)
    finally:
        disk.close(fd)
        unlink(path)


def look_at(path: Path | str) -> Look | None:
    """Return the facts that change when a file does; None if it is missing. Blocks."""
    try:
        status = disk.stat(path)
    except (OSError, ValueError):  # no file has such a path
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """Yield a path of a file in memory: OpenSSL takes keys from nowhere else."""
    file = disk.memfd_create("siltstone", os.MFD_CLOEXEC)
    try:
        disk.write(file, text.encode())
        yield f"/proc/self/fd/{file}"
    finally:
        disk.close(file)
