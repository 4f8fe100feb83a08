"""The token of the control channel: a file that only the broker's user can read.

The token survives restarts, so that a command that waits for a restart can continue. If other users
could read or write the file, it is replaced, since its token is no secret any more.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from siltstone.config.listeners import show_address
from siltstone.storage import files
from siltstone.storage.directory.control import ENCRYPTED
from siltstone.storage.files import disk
from siltstone.storage.randomness import random_bytes

TOKEN_FILE = files.CONTROL_TOKEN
_TOKEN_BYTES = 32
_MAX_FILE_BYTES = 256


class ControlToken:
    """The token of a broker, in its first log directory; before `ensure` no request has it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._text: str | None = None

    def ensure(self) -> None:
        """Read the token; create one unless a trusted one exists. Blocks.

        Raises:
            OSError: The directory cannot be written.
        """
        path = self._directory / TOKEN_FILE
        self._text = _read_trusted(path) or _create(path)

    def is_brought_by(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the headers of a request, in lower case, bring the token."""
        return self._text is not None and brings_token(headers, self._text)


def _create(path: Path) -> str:
    files.unlink(path)
    token = random_bytes(_TOKEN_BYTES).hex()
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        files.write_all(fd, f"{token}\n".encode("ascii"), 0)
    finally:
        disk.close(fd)
    return token


def read_token(directory: Path) -> str:
    """Return the token for a command that talks to the broker which serves this directory.

    Raises:
        OSError: The file does not exist, or belongs to another user.
    """
    return files.read_bytes(directory / TOKEN_FILE).decode("ascii").strip()


def brings_token(headers: Mapping[bytes, bytes], token: str) -> bool:
    """Return whether the headers of a request, in lower case, bring the token."""
    import hmac  # noqa: PLC0415 - a start needs it not

    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())


def note_address(directory: Path, host: str, port: int, *, is_encrypted: bool = False) -> None:
    """Write the address of the control channel into the log directory, for local tools. Blocks."""
    shown = (ENCRYPTED if is_encrypted else "") + show_address(host, port)
    with contextlib.suppress(OSError):  # only a help for local tools that read the folder
        files.replace_file(directory / files.CONTROL_ADDRESS, f"{shown}\n".encode(), durable=False)


def read_address(directory: Path) -> str | None:
    """Return the control address of the last broker that used this directory. Blocks."""
    try:
        return files.read_bytes(directory / files.CONTROL_ADDRESS).decode("ascii").strip()
    except FileNotFoundError:
        return None


def _read_trusted(path: Path) -> str | None:
    try:
        content = files.read_checked(path, _check, _MAX_FILE_BYTES)
    except OSError:
        return None  # missing, a link or another user's: the caller creates a new one
    text = content.decode("ascii", "replace").strip()
    return text if len(text) == 2 * _TOKEN_BYTES else None


def _check(status: os.stat_result) -> None:
    is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if not is_ours or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError("others may have read or written it")
