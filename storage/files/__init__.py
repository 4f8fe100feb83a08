"""Names of the files, and the only place that creates, renames, fsyncs and unlinks files.

Everything that has to survive a crash goes through these functions. They use the calls in `disk`,
the seam, so they also work on a disk that a test puts in its place. They follow no link unless they
say so: the target of a link is not ours. Only a log directory itself may be a link. The content of
a named file changes only by `replace_file`: temporary file, fsync, rename, fsync of the directory
(KAFKA-16541, KAFKA-3968).
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.protocol.parts import HasFileno
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
CONTROL_TOKEN = ".siltstone-control-token"  # noqa: S105  # the file's name, not the secret
CONTROL_ADDRESS = ".siltstone-control-address"
CONTROL_CERTIFICATE = ".siltstone-control-certificate"
USERS = "siltstone-users.json"
ACLS = "siltstone-acls.json"
QUOTAS = "siltstone-quotas.json"
LOG_DIRS = "siltstone-directories.json"

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
_SYNC_FILE_RANGE_WRITE = 2


class FsyncFailed(OSError):  # noqa: N818  # what happened, in two words
    """An fsync failed: parts of the file may not be on the disk, and no later fsync shows this."""


class SegmentName(NamedTuple):
    """The parts of a file's name in a partition folder."""

    base_offset: int
    kind: str
    suffix: str


def segment_file_name(base_offset: int, kind: str = LOG, suffix: str = "") -> str:
    """Return the name of a segment's file or of a snapshot: ``00000000000000000042.log.swap``."""
    return f"{base_offset:020d}{kind}{suffix}"


def parse_name(name: str) -> SegmentName | None:
    """Return the parts of the name of a segment's file or a snapshot; None for other names."""
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
    """Create a folder and make its name durable; a folder that exists already is no error.

    Only the owner may change names in the folder, whatever umask the process has.
    """
    with suppress(FileExistsError):
        disk.mkdir(path, _FOLDER_MODE)
    if durably:
        fsync_directory(path.parent)


def create_file(path: Path | str, mode: int = FILE_MODE) -> int:
    """Create an empty file, or empty the old one; return a descriptor to read and write it.

    A link of that name is replaced by a file.
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
        OSError: The folder cannot be read, or the folder or something in it is a link.
    """
    if is_link(path):
        raise _is_link(path)
    found = disk.scan(path)
    for name, kind in found.items():
        if kind == stat.S_IFLNK:
            raise _is_link(path / name)
    return set(found)


def list_names(folder: Path | int) -> list[str]:
    """Return all names in a folder, which may be an open one, in any order.

    Raises:
        OSError: The folder is missing or cannot be read.
    """
    return disk.listdir(folder)


def list_bases(folder: Path, kind: str) -> list[int]:
    """Return the base offsets of the files of a kind in a folder, ascending; no other suffixes.

    Raises:
        OSError: The folder is missing or cannot be read.
    """
    names = map(parse_name, list_names(folder))
    return sorted(
        name.base_offset for name in names if name and name.kind == kind and not name.suffix
    )


def _is_link(path: Path | str) -> OSError:
    return OSError(errno.ELOOP, "it is a link, which is not followed", str(path))


def find_size(path: str) -> int | None:
    """Return the size of a file, None if it is missing.

    The path is a str, since a start calls this thousands of times.

    Raises:
        OSError: Something other than a file has that name, or its status cannot be read.
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
    """Return a descriptor of a file; with ``create`` a missing file is created.

    If the path is a pipe, this does not wait for the other end.

    Raises:
        OSError: The file is missing, cannot be opened or is a link; or, with ``write``, it is a
            pipe or a device.
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
    """Return the content of a file that should be small.

    Raises:
        OSError: The file is missing, cannot be read, is a link, a pipe, a device or a folder, or is
            so large that it cannot be ours.
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
        OSError: The file is missing or cannot be read.
    """
    with opened(path) as fd:
        status = disk.fstat(fd)
        _check_no_folder(status, path)
        return _read_rest(fd, status)


@contextmanager
def opened(path: Path | str) -> Iterator[int]:
    """Open a file of any kind for reading, and yield its descriptor; a link is followed.

    Raises:
        OSError: The file is missing or cannot be opened.
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

    If the path is a pipe, this does not wait for the other end.

    Raises:
        OSError: The file is missing, cannot be read, or is a link that must not be followed.
        Exception: ``check`` raised it.
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
    """Return the bytes of an open file from its present position on, up to a limit."""
    most = max(status.st_size, _SMALL) + 1  # the status of some files has no size
    parts = []
    while limit and (data := disk.read(fd, min(most, limit))):
        parts.append(data)
        limit -= len(data)
    return b"".join(parts)


def read_at(fd: int, size: int, position: int) -> bytes:
    """Return ``size`` bytes of an open file at a position, fewer at its end.

    If a call returns fewer bytes, another one asks for the rest and shows whether the file ends
    there or the disk fails: a disk that fails in the middle of a range first returns the part
    before.

    Raises:
        OSError: The disk fails.
    """
    data = disk.pread(fd, size, position)
    while len(data) < size and (rest := disk.pread(fd, size - len(data), position + len(data))):
        data += rest
    return data


def read_into(fd: int, view: memoryview, position: int) -> int:
    """Fill memory as `read_at` reads; return the number of bytes.

    Raises:
        OSError: The disk fails.
    """
    done = disk.preadv(fd, [view], position)
    while done < len(view) and (got := disk.preadv(fd, [view[done:]], position + done)):
        done += got
    return done


def size_of(fd: int) -> int:
    """Return the size of an open file."""
    return disk.fstat(fd).st_size


def has_reserved(fd: int) -> bool:
    """Tell whether an open file has more room than its size needs, as `preallocate` reserves.

    A file system may reserve some by itself, and then it can be given back, too.
    """
    status = disk.fstat(fd)
    pages = -(-status.st_size // _PAGE)
    return status.st_blocks * _STAT_BLOCK > pages * _PAGE


def read_text(path: Path) -> str:
    """Return the text of a file that should be small, with line ends as on Unix.

    Raises:
        OSError: As `read_whole` raises it.
        UnicodeDecodeError: The file is not UTF-8.
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
    """Close a descriptor."""
    disk.close(fd)


def truncate(fd: int, size: int) -> None:
    """Cut an open file to ``size`` bytes."""
    disk.ftruncate(fd, size)


_PAGE: Final = 4096
_STAT_BLOCK: Final = 512  # bytes, whatever the file system's block is


def preallocate(fd: int, size: int) -> None:
    """Reserve room on the disk for an open file without changing its size.

    Kafka makes the file that large, so its readers meet a tail of zeros. On a file system that
    cannot reserve room this does nothing.

    Raises:
        OSError: The disk does not have the room.
    """
    try:
        disk.fallocate(fd, _FALLOCATE_KEEP_SIZE, 0, size)
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.ENOSYS}:
            raise


def set_modified(path: Path | str, modified_ns: int) -> None:
    """Set the modification time of a file, in ns since the epoch."""
    disk.utime(path, ns=(modified_ns, modified_ns))


def fsync(fd: int) -> None:
    """Wait until an open file's bytes and size are on the disk.

    Raises:
        FsyncFailed: They may never get to the disk, even if a later call succeeds.
    """
    try:
        disk.fsync(fd)
    except OSError as error:
        raise FsyncFailed(error.errno, f"fsync failed: {error.strerror}") from error


def fsync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; a missing folder needs no fsync."""
    # A missing folder was renamed or deleted meanwhile; that fsynced it (KAFKA-15391).
    with suppress(FileNotFoundError), open_folder(path) as fd:
        fsync(fd)


def start_write_back(file: HasFileno, position: int, size: int) -> bool:
    """Ask the kernel to begin writing a range; true if it took the hint.

    Dirty pages are written early, so that the kernel never has to throttle an append. It is only a
    hint and makes nothing durable: it writes no metadata and waits for nothing.
    """
    try:
        disk.sync_file_range(file.fileno(), position, size, _SYNC_FILE_RANGE_WRITE)
    except OSError:  # the file was deleted and cannot be opened: nothing is left to write
        return False
    return True


def rename(old: Path | str, new: Path | str) -> None:
    """Rename a file or folder, replacing a file of that name; the caller fsyncs the directory."""
    disk.rename(old, new)


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Open a folder and yield its descriptor, by which its files are found without its path."""
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
        FileExistsError: The name exists already; it may be a link to a file in use.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = disk.open(name, flags, FILE_MODE, dir_fd=folder)
    try:
        write_all(fd, data, 0)
    finally:
        disk.close(fd)


def unlink(path: Path | str) -> bool:
    """Delete a file, if it exists (KAFKA-6624); tell whether it did."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    return True


def exists(path: Path, *, follow: bool = True) -> bool:
    """Tell whether a path exists. A link counts as its target; without ``follow`` as itself.

    Raises:
        OSError: The system does not say. Since Python 3.14 ``Path.exists`` returns false then.
    """
    try:
        disk.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(path: Path | str) -> bool:
    """Tell whether a path leads to a folder.

    Raises:
        OSError: The system does not say.
    """
    return _has_kind(path, stat.S_ISDIR)


def is_file(path: Path | str) -> bool:
    """Tell whether a path leads to a regular file.

    Raises:
        OSError: The system does not say.
    """
    return _has_kind(path, stat.S_ISREG)


def is_link(path: Path | str) -> bool:
    """Tell whether a path is a link.

    Raises:
        OSError: The system does not say.
    """
    return _has_kind(path, stat.S_ISLNK, follow=False)


def _has_kind(path: Path | str, is_kind: Callable[[int], bool], *, follow: bool = True) -> bool:
    try:
        return is_kind(disk.stat(path, follow_symlinks=follow).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the path has a zero byte
        return False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def remove_folder(path: Path, *, durably: bool = True) -> None:
    """Delete a folder with everything in it, if it exists; of a link, only the link itself."""
    if is_link(path):
        unlink(path)
    elif exists(path):
        with suppress(FileNotFoundError):
            _remove_tree(path)
    if durably:
        fsync_directory(path.parent)


def _remove_tree(path: Path | str, parent: int | None = None) -> None:
    """Delete a folder with everything in it; with ``parent``, ``path`` is a name in that folder."""
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
    with suppress(FileNotFoundError):  # the file is deleted already
        rename(path, marked)
    return marked


def replace_file(path: Path, data: bytes, *, durable: bool = True, mode: int = FILE_MODE) -> None:
    """Give a file new content; a crash leaves the whole old or the whole new content. Blocks.

    Without ``durable`` nothing is fsynced, and a power failure may leave an empty file: use this
    for files that their reader checks and can do without. A temporary file of an earlier try is
    removed first, so that with a stricter ``mode`` other users cannot read the file at any moment.

    Raises:
        OSError: The old file still has its name, unless only the fsync of the folder failed: then
            the new file may have it.
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
            with suppress(OSError):  # half a file would take room on a full disk
                unlink(temporary)
            raise
        if durable:
            fsync(folder)


def put_back(
    path: Path, content: bytes | None, mode: int = FILE_MODE, *, again: bool = False
) -> bool:
    """Restore the old content of a file, or delete the file, after `replace_file` failed. Blocks.

    The new file may have the name already. If the old content is still in place, nothing changes,
    but with ``again``: an earlier call was refused, perhaps only the fsync of the folder. Both the
    content and the name are fsynced: otherwise a power failure could leave half a file, or bring
    the new one back. Returns false if the disk refuses it, so that a start may find the new
    content.
    """
    try:
        if content is None:
            unlink(path)
            fsync_directory(path.parent)
        elif again or read_whole(path) != content:
            replace_file(path, content, mode=mode)
    except OSError:
        return False
    return True


def write_again(path: Path) -> None:
    """Write all bytes of a file once more in their place, and wait for the disk. Blocks.

    After a failed fsync the kernel may count pages as written that are not on the disk. Writing
    them again puts them there. Pages that the kernel has dropped are read from the disk first, so
    that a scan finds which bytes are lost.

    Raises:
        FsyncFailed: The disk still fails.
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


def note_failed_fsync(directory: Path) -> bool:
    """Write a mark for the next start; tell whether the disk has taken it."""
    try:
        disk.close(create_file(directory / FSYNC_FAILED))
        fsync_directory(directory)
    except OSError:
        return False
    return True


def find_room(directory: Path) -> tuple[int, int]:
    """Return the free bytes and all bytes of the disk on which a directory lies.

    Raises:
        OSError: The system does not say.
    """
    system = disk.statvfs(directory)
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


def try_room(directory: Path, size: int) -> None:
    """Write a file of ``size`` random bytes, which cannot be compressed, and delete it.

    Raises:
        OSError: The directory cannot take the file.
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
    """Return facts about a file that change when the file changes; None if missing. Blocks."""
    try:
        status = disk.stat(path)
    except (OSError, ValueError):  # no file has such a path
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """Yield the path of a file in memory with a text: OpenSSL reads keys only from files."""
    file = disk.memfd_create("siltstone", os.MFD_CLOEXEC)
    try:
        disk.write(file, text.encode())
        yield f"/proc/self/fd/{file}"
    finally:
        disk.close(file)
