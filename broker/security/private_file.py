"""Files that only the broker's own user may read or write, and changes of such files."""

import os
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from siltstone.broker.process.again import Again
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import OneByOne
from siltstone.protocol.errors import KafkaError, KafkaStorageError, PolicyViolation
from siltstone.storage import files

T = TypeVar("T")

_MODE = 0o600
_OTHERS = 0o077
MAX_BYTES = 64 << 20


class PrivateFileError(Exception):
    """A file that holds secrets cannot be trusted or read; the text says what to do."""


def read_private(path: Path) -> bytes | None:
    """Return the content of a file, or None if the file does not exist. Blocks.

    Raises:
        PrivateFileError: Others may read or write the file, it belongs to another user, it is no
            regular file, or it cannot be read.
    """
    try:
        return files.read_checked(path, partial(_check, path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PrivateFileError(f"{path} cannot be read: {error.strerror}") from error


def load_private(path: Path, decode: Callable[[bytes], T], remedy: str) -> T | None:
    """Return a file's decoded content, or None; ``remedy`` says what to do about damage. Blocks.

    Raises:
        PrivateFileError: The file cannot be trusted, or is damaged.
    """
    content = read_private(path)
    if content is None:
        return None
    try:
        return decode(content)
    except (ValueError, KeyError, TypeError, AttributeError, KafkaError) as error:
        raise PrivateFileError(
            f"{path} is damaged; put back a copy, or remove it and {remedy}"
        ) from error


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PrivateFileError(f"{path} is no regular file; remove it")
    if status.st_uid != os.geteuid():
        raise PrivateFileError(
            f"{path} belongs to the user {status.st_uid} and the broker runs as "
            f"{os.geteuid()}; give it the file by chown"
        )
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise PrivateFileError(
            f"{path} has the rights {stat.S_IMODE(status.st_mode):04o}, so that others may have "
            "read or written it; look at what it holds, then run chmod 0600 on it"
        )
    if status.st_size > MAX_BYTES:
        raise PrivateFileError(f"{path} has more than {MAX_BYTES} bytes")


def replace_private(path: Path, content: bytes) -> None:
    """Give a file new content with the mode 0600, atomically. Blocks.

    Raises:
        OSError: The disk did not take the content. The old file has stayed or was put back: after a
            refused change, a restart must not find the change.
        NotPutBack: The disk refused that, too.
    """
    before = None
    with suppress(FileNotFoundError):
        before = files.read_whole(path)
    try:
        files.replace_file(path, content, mode=_MODE)
    except OSError as error:
        if not files.put_back(path, before, _MODE):
            raise NotPutBack(error.errno, error.strerror, before) from error
        raise


class NotPutBack(OSError):  # noqa: N818  # a refusal, as other errors of the disk
    """A file has neither taken its new content nor surely its old one back: ``before``."""

    def __init__(self, number: int | None, text: str | None, before: bytes | None) -> None:
        super().__init__(number, text)
        self.before = before


class PrivateWriter:
    """Changes a private file of a running broker, one change after the other (loop only).

    ``what`` names the content of the file in the message of a refusal. If the disk refuses a change
    and then the old content as well, that is tried again: until then a start may find the change.
    """

    def __init__(self, path: Path, what: str, io: IoThreads) -> None:
        self._path = path
        self._what = what
        self._io = io
        self._changes = OneByOne(what, KafkaError)
        self._before: bytes | None = None
        self._restoring = Again(f"put the {what} back", lambda: self.make(self._put_back()))

    async def make(self, change: Coroutine[Any, Any, T]) -> T:
        """Run a change; it is completed even if the caller is cancelled."""
        return await self._changes.make(change)

    async def finish(self) -> None:
        """Wait until all changes that have begun are completed, or put back; log what is not."""
        await self._changes.finish()
        await self.make(self._put_back())
        self._restoring.give_up()

    async def _put_back(self) -> None:
        """Put back the content that is in force, unless a change has replaced it meanwhile."""
        if self._restoring.is_due and await self._io.run(
            partial(files.put_back, again=True), self._path, self._before, _MODE
        ):
            self._restoring.end()

    async def write(self, encode: Callable[[T], bytes], content: T) -> None:
        """Replace the content on the disk; only a change calls this.

        Raises:
            KafkaStorageError: The file could not be written, so the old content stays.
            PolicyViolation: The content is larger than a start would read.
        """
        encoded = await self._io.run(encode, content)
        if len(encoded) > MAX_BYTES:
            raise PolicyViolation(f"the {self._what} would have more than {MAX_BYTES} bytes")
        await self.put(replace_private, self._path, encoded)

    async def put(self, write: Callable[..., None], *arguments: object) -> None:
        """Run ``write``, which writes the file, in another thread; only a change calls this.

        Raises:
            KafkaStorageError: The file could not be written, so the old content stays.
        """
        try:
            await self._io.run(write, *arguments)
        except OSError as error:
            if isinstance(error, NotPutBack) and not self._restoring.is_due:
                self._before = error.before
                self._restoring.begin()
            raise KafkaStorageError(
                f"{self._path} cannot be written ({error.strerror}); make room or check the disk"
            ) from error
        self._restoring.end()
