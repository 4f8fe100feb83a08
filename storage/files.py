"""Names of the files, and the only place that creates, renames, fsyncs and unlinks them.

Whatever has to survive a crash goes through these functions, so a test can record or break their
order. A file changes its content under its name only by `replace_file`: temporary file, fsync,
rename, fsync of the directory (KAFKA-16541, KAFKA-3968).
"""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from protocol.errors import KafkaStorageError

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

_FILE_MODE = 0o644
_FALLOCATE_KEEP_SIZE = 1


class SegmentName(NamedTuple):
    """What the name of a file in a partition folder says."""

    base_offset: int
    kind: str
    suffix: str


def segment_file_name(base_offset: int, kind: str = LOG, suffix: str = "") -> str:
    """Return the name of a segment's file or of a snapshot: ``00000000000000000042.log.swap``."""
    return f"{base_offset:020d}{kind}{suffix}"


def parse_name(name: str) -> SegmentName | None:
    """Return what the name of a segment's file or of a snapshot says; None if it is neither."""
    digits, dot, rest = name.partition(".")
    if not dot or not digits.isascii() or not digits.isdigit():
        return None
    kind, dot, suffix = rest.partition(".")
    if "." + kind not in {*SEGMENT_KINDS, SNAPSHOT}:
        return None
    if dot + suffix not in {"", CLEANED, SWAP, DELETED}:
        return None
    return SegmentName(int(digits), "." + kind, dot + suffix)


def create_folder(path: Path) -> None:
    """Create a folder and make its name durable; one that exists is fine."""
    path.mkdir(exist_ok=True)
    fsync_directory(path.parent)


def create_file(path: Path) -> int:
    """Create an empty file, cutting what was there; return a descriptor to read and write it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)


def find_size(path: str) -> int | None:
    """Return the bytes of a file, None if there is none. A str: start-up asks by thousands."""
    try:
        return os.stat(path).st_size  # noqa: PTH116  # a Path costs more than the call
    except FileNotFoundError:
        return None


def open_file(path: Path | str, *, write: bool = False, create: bool = False) -> int:
    """Return a descriptor of a file, creating a missing one if so asked."""
    mode = os.O_RDWR if write or create else os.O_RDONLY
    return os.open(path, mode | os.O_CLOEXEC | (os.O_CREAT if create else 0), _FILE_MODE)


def write_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of ``data`` at ``position``, however often the kernel takes only a part."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        written = os.pwrite(fd, view[done:], position + done)
        if not written:
            raise OSError(errno.ENOSPC, "the disk took no bytes")
        done += written


def truncate(fd: int, size: int) -> None:
    """Cut an open file to ``size`` bytes."""
    os.ftruncate(fd, size)


def preallocate(fd: int, size: int) -> None:
    """Reserve room on the disk for an open file, whose size stays what it is.

    Kafka makes the file as large as that. A tail of zeros is then in the way of everybody who reads
    it before it is cut, so we have the file system keep the size. One that cannot reserve does
    without.

    Raises:
        OSError: The disk has not so much room.
    """
    import ctypes  # noqa: PLC0415  # 1 MiB and 5 ms for a setting that is rarely used

    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (fd, _FALLOCATE_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size))
    if libc.fallocate(*arguments) and ctypes.get_errno() not in {errno.EOPNOTSUPP, errno.ENOSYS}:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def fsync(fd: int) -> None:
    """Wait until an open file's bytes and size are on the disk."""
    os.fsync(fd)


def fsync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; a folder that is gone needs none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # renamed or deleted meanwhile: whoever did that fsyncs (KAFKA-15391)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(old: Path, new: Path) -> None:
    """Rename a file or folder, replacing a file of that name; the caller fsyncs the directory."""
    old.rename(new)


def unlink(path: Path) -> None:
    """Delete a file; one that is gone already is fine (KAFKA-6624)."""
    path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Delete a folder with all that is in it, durably; one that is gone already is fine."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():
            raise
    fsync_directory(path.parent)


def mark_deleted(path: Path) -> Path:
    """Rename a file so that the next start deletes it; return its new name; missing is fine."""
    marked = path.with_name(path.name + DELETED)
    with suppress(FileNotFoundError):  # whoever deleted it first did what was wanted
        rename(path, marked)
    return marked


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Give a file new content, so that a crash leaves the old one or the new one, whole. Blocks.

    If it need not be ``durable`` nothing is fsynced: a power failure may leave an empty file, so
    that is for files whose reader checks them and can do without.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    fd = create_file(temporary)
    try:
        write_all(fd, data, 0)
        if durable:
            fsync(fd)
    finally:
        os.close(fd)
    rename(temporary, path)
    if durable:
        fsync_directory(path.parent)


class translate_os_errors:  # noqa: N801  # reads as what it does in a with statement
    """Raise `KafkaStorageError` from any OSError of the block.

    ``on_failure`` hears of the error first: it marks the log directory offline. A class and not a
    generator: it stands on the way of each append and costs a third of one.
    """

    __slots__ = ("_directory", "_on_failure")

    def __init__(
        self, directory: Path, on_failure: Callable[[OSError], object] | None = None
    ) -> None:
        self._directory = directory
        self._on_failure = on_failure

    def __enter__(self) -> None:
        """Do nothing: only the way out matters."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Translate the error, if it is one of the disk."""
        if isinstance(error, OSError):
            if self._on_failure is not None:
                self._on_failure(error)
            raise KafkaStorageError(
                f"{self._directory} failed: {error}; check the disk and restart the broker"
            ) from error
