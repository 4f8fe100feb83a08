"""The four files of a segment: their paths, and opening, renaming and deleting them."""

import errno
import logging
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.files import disk
from siltstone.storage.segment.open_file import OpenFiles, SegmentFile

_logger = logging.getLogger(__name__)


class SegmentFiles:
    """The files of one segment: the same folder, base offset and suffix.

    Files may be renamed while other threads read. A reader that does not find a file by the old
    name finds it by the new name, and an open file stays readable. The old name may soon be another
    segment's (the cleaner's swap): what was found by a name that is no longer ours is not used.
    """

    __slots__ = ("_key", "_moving_to", "base_offset", "directory", "open_files", "suffix")

    def __init__(
        self, directory: Path, base_offset: int, suffix: str, open_files: OpenFiles
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self._moving_to = suffix  # differs from suffix only while the files are being renamed
        self.open_files = open_files
        # A key, not the object itself: the two would refer to each other, and files would stay open
        # until the garbage collector runs.
        self._key = object()

    @property
    def log_path(self) -> Path:
        """Return where the ``.log`` is."""
        return self.path(files.LOG)

    @property
    def modified_ms(self) -> int:
        """Return when the ``.log`` was last written, in ms since the epoch."""
        return self.modified_ns // 1_000_000

    @property
    def modified_ns(self) -> int:
        """Return when the ``.log`` was last written, in ns; works while it is being renamed.

        Raises:
            FileNotFoundError: There is no ``.log``.
        """
        for path in self._paths(files.LOG):
            with suppress(FileNotFoundError):
                modified_ns = disk.stat(path).st_mtime_ns
                if self._has(files.LOG, path):
                    return modified_ns
        raise self._is_missing(files.LOG)

    def path(self, kind: str) -> Path:
        """Return where the file of a kind, such as `files.INDEX`, is or would be."""
        return Path(self.text(kind))

    def text(self, kind: str) -> str:
        """Return the same path as text, which takes a tenth of the time."""
        return self._path_text(kind, self.suffix)

    def open_to_read(self, kind: str) -> SegmentFile:
        """Return a file, which may be open already.

        Raises:
            FileNotFoundError: There is no such file.
        """
        file = self.open_files.get((self._key, kind))
        if file is None:
            file = self.open_apart(kind)
            self.keep(kind, file)
        return file

    def open_apart(self, kind: str) -> SegmentFile:
        """Return a file that is not kept open for other readers.

        Raises:
            FileNotFoundError: There is no such file.
        """
        for path in self._paths(kind):
            with suppress(FileNotFoundError):
                file = SegmentFile(files.open_file(path))
                if self._has(kind, path):
                    return file
        raise self._is_missing(kind)

    def change_suffix(self, suffix: str) -> None:
        """Rename the files that exist, the ``.log`` first; the caller fsyncs the directory.

        A start relies on this order: if no ``.log`` has the suffix of an unfinished swap, the data
        is in place (docs/on-disk-format.md).
        """
        self._moving_to = suffix
        for kind in files.SEGMENT_KINDS:
            old = self.text(kind)
            new = self._path_text(kind, suffix)
            try:
                files.rename(old, new)
            except FileNotFoundError:
                if kind == files.LOG and files.find_size(new) is None:
                    _logger.warning("segment is gone before it was renamed file=%s", old)
        self.suffix = suffix

    def restore_suffix(self, original: str) -> None:
        """Undo a `change_suffix`, as far as it was done, the ``.log`` last."""
        for kind in reversed(files.SEGMENT_KINDS):
            for changed in sorted({self.suffix, self._moving_to} - {original}):
                with suppress(FileNotFoundError):
                    files.rename(self._path_text(kind, changed), self._path_text(kind, original))
        self.suffix = self._moving_to = original

    def relocate(self, directory: Path) -> None:
        """Note the new path of the folder."""
        self.directory = directory

    def unlink(self) -> None:
        """Delete the files that exist. Slices that are being sent stay valid.

        If only some files were renamed, files of both names are deleted.
        """
        for kind in files.SEGMENT_KINDS:
            self.forget(kind)
            for suffix in sorted({self.suffix, self._moving_to}):
                files.unlink(self._path_text(kind, suffix))

    def link(
        self, source: int, target: int, names: Container[str], own: Mapping[str, bytes]
    ) -> tuple[str, ...]:
        """Link the files that exist into another folder, and return their kinds. Blocks.

        In the other folder they get their final names. ``source`` and ``target`` are open folders,
        and ``names`` are the names in ``source``. The files must not be renamed meanwhile. Kinds
        that are in ``own`` are not linked; their files are written with the content given there.

        Raises:
            FileNotFoundError: There is no ``.log``.
        """
        stem = f"{self.base_offset:020d}"
        kinds = []
        for kind in files.SEGMENT_KINDS:
            name = stem + kind
            if kind in own:
                files.write_in_folder(name, own[kind], target)
                kinds.append(kind)
                continue
            for suffix in sorted({self.suffix, self._moving_to}):
                if name + suffix in names:
                    files.link(name + suffix, name, source, target)
                    kinds.append(kind)
                    break
            else:
                if kind == files.LOG:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return tuple(kinds)

    def check_present(self) -> None:
        """Check that the ``.log`` was not deleted while it is open.

        Raises:
            FileNotFoundError: The ``.log`` is missing.
        """
        self.size(files.LOG)

    def size(self, kind: str) -> int:
        """Return the size of a file.

        Raises:
            FileNotFoundError: The file is missing.
        """
        size = self.find_size(kind)
        if size is None:
            raise self._is_missing(kind)
        return size

    def find_size(self, kind: str) -> int | None:
        """Return the size of a file, None if it is missing."""
        for path in self._paths(kind):
            size = files.find_size(path)
            if size is not None and self._has(kind, path):
                return size
        return None

    def read(self, kind: str) -> bytes | None:
        """Return the content of a file, None if it is missing."""
        for path in self._paths(kind):
            with suppress(FileNotFoundError):
                data = files.read_bytes(path)
                if self._has(kind, path):
                    return data
        return None

    def _paths(self, kind: str) -> Iterator[str]:
        """Return where a file may be; more, if its names have changed while they were tried.

        What is found at one of them is used only if the file still `_has` that name.
        """
        tried: list[str] = []
        while (texts := self._texts(kind)) != tried:
            yield from texts
            tried = texts

    def _has(self, kind: str, path: str) -> bool:
        return path in self._texts(kind)

    def _texts(self, kind: str) -> list[str]:
        """Return the path that a file has, and then the one that it is getting."""
        suffix, moving_to = self.suffix, self._moving_to
        suffixes = (suffix,) if moving_to == suffix else (suffix, moving_to)
        return [self._path_text(kind, suffix) for suffix in suffixes]

    def _is_missing(self, kind: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.text(kind))

    def _path_text(self, kind: str, suffix: str) -> str:
        return f"{self.directory}/{files.segment_file_name(self.base_offset, kind, suffix)}"

    def keep(self, kind: str, file: SegmentFile) -> None:
        """Count an open file among those kept to read."""
        self.open_files.put((self._key, kind), file)

    def forget(self, kind: str) -> None:
        """Keep a file open only until its last reader is done."""
        self.open_files.forget((self._key, kind))

    def forget_all(self) -> None:
        """Keep no file open after its last reader: a deleted file that is open uses the disk."""
        for kind in files.SEGMENT_KINDS:
            self.forget(kind)
