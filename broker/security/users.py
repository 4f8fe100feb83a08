"""Users and their stored verifiers: ``siltstone-users.json``, a file of the first log directory.

The file is JSON with an object for each user: for each mechanism the salt, the iterations, the
stored key and the server key, in base64. ``secret`` is for the salts of users that do not exist,
and ``absent`` has the forms of their answers (`AbsentUsers`). The file has the mode 0600 and is
replaced atomically. A start refuses a file that others may have read.
"""

import base64
import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security import scram
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.private_file import (
    MAX_BYTES,
    PrivateWriter,
    load_private,
    replace_private,
)
from siltstone.broker.security.proven import ProvenPasswords
from siltstone.storage import files
from siltstone.storage.directory.strict_json import read_sealed, seal
from siltstone.storage.randomness import random_bytes

FILE_NAME: Final = files.USERS
_VERSION: Final = 1
_HASHES: Final[dict[str, scram.Mechanism]] = {**scram.MECHANISMS, PLAIN: PLAIN_HASH}
_SECRET_BYTES: Final = 32
_PARTS: Final = ("salt", "stored_key", "server_key")

Credentials = dict[str, dict[str, scram.Verifier]]
"""Verifiers by user and mechanism."""
_NONE: Final[dict[str, scram.Verifier]] = {}
_Absent = dict[str, scram.AbsentUsers]
"""By mechanism."""


class UserStore:
    """The users of one broker; only the process that holds the log directory changes them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self.credentials: Credentials = {}
        self.proven = ProvenPasswords()
        self._secret = random_bytes(_SECRET_BYTES)
        self._absent = {
            name: scram.AbsentUsers(mechanism, self._secret) for name, mechanism in _HASHES.items()
        }
        self._kept: list[bytes] = []  # the absent users as the file has them

    def load(self) -> None:
        """Read the file, if there is one. Blocks.

        Raises:
            PrivateFileError: The file cannot be trusted, or is damaged.
        """
        held = load_private(self.path, _decode, "make the users again with siltstone users")
        if held is not None:
            self._secret, self.credentials, self._absent = held
            self._kept = self._asked()

    def find(self, mechanism: str, user: str) -> tuple[scram.Verifier, bool]:
        """Return the verifier of a user, and whether the user exists; if not, no password fits.

        The verifier of an absent user is computed in both cases, so that the time reveals nothing.
        """
        absent = self._absent[mechanism].verifier_of(user)
        found = self.credentials.get(user, _NONE).get(mechanism)
        return (absent, False) if found is None else (found, True)

    def write(self, credentials: Credentials) -> None:
        """Replace the users. Blocks.

        Raises:
            OSError: The users are too many to be read again, or the disk did not take them; the old
                users stay.
        """
        absent = _beside(self._absent, credentials)
        asked = self._asked()
        content = _encode(self._secret, credentials, absent)
        if len(content) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"the users would have more than {MAX_BYTES} bytes")
        replace_private(self.path, content)
        self.credentials, self._absent, self._kept = credentials, absent, asked

    def keep(self) -> None:
        """Write the forms of absent users, so that the next start answers the same. Blocks.

        Raises:
            OSError: The disk did not take the file.
        """
        if self.credentials and self._asked() != self._kept:
            self.write(self.credentials)

    def _asked(self) -> list[bytes]:
        return [bytes(each.asked) for each in self._absent.values()]


def _beside(absent: _Absent, credentials: Credentials) -> _Absent:
    """Return the absent users that go with these users."""
    forms: dict[str, set[scram.SaltForm]] = {}
    for own in credentials.values():
        for mechanism, verifier in own.items():
            forms.setdefault(mechanism, set()).add(scram.form_of(verifier))
    return {name: each.beside(sorted(forms.get(name, ()))) for name, each in absent.items()}


class UserWriter:
    """Changes the users of a running broker, one change after the other (loop only)."""

    def __init__(self, store: UserStore, io: IoThreads) -> None:
        self._store = store
        self.file = PrivateWriter(store.path, "users", io)

    async def change(self, edit: Callable[[Credentials], None]) -> None:
        """Write a change, then put it in force; completed even if the caller is cancelled.

        Raises:
            KafkaStorageError: The file could not be written, so the change has not happened.
        """
        await self.file.make(self._change(edit))

    async def _change(self, edit: Callable[[Credentials], None]) -> None:
        draft = copy_of(self._store.credentials)
        edit(draft)
        if draft != self._store.credentials:
            await self.file.put(self._store.write, draft)


def copy_of(credentials: Credentials) -> Credentials:
    """Return a copy that can be changed without changing these credentials."""
    return {user: dict(own) for user, own in credentials.items()}


def remove(credentials: Credentials, user: str, mechanism: str) -> None:
    """Remove one credential; a user is removed with its last credential."""
    own = credentials.get(user, {})
    own.pop(mechanism, None)
    if not own:
        credentials.pop(user, None)


def _encode(secret: bytes, credentials: Credentials, absent: _Absent) -> bytes:
    content = {
        "version": _VERSION,
        "secret": base64.b64encode(secret).decode(),
        "absent": {
            name: {"forms": each.forms, "asked": base64.b64encode(each.asked).decode()}
            for name, each in absent.items()
            if each.forms or any(each.asked)
        },
        "users": encode_users(credentials),
    }
    return seal(json.dumps(content, indent=1).encode())


def encode_users(credentials: Credentials) -> dict[str, Any]:
    """Return users in the form of the file."""
    return {
        user: {mechanism: _encode_one(verifier) for mechanism, verifier in sorted(own.items())}
        for user, own in sorted(credentials.items())
    }


def _encode_one(verifier: scram.Verifier) -> dict[str, Any]:
    texts = {name: base64.b64encode(getattr(verifier, name)).decode() for name in _PARTS}
    return {"iterations": verifier.iterations, **texts}


def _decode(content: bytes) -> tuple[bytes, Credentials, _Absent]:
    """Return the secret, the users, and the absent users."""
    parsed = read_sealed(content, _VERSION, ("absent", "secret", "users"))
    secret = base64.b64decode(parsed["secret"], validate=True)
    if len(secret) != _SECRET_BYTES:
        raise ValueError("the secret is cut")
    credentials = decode_users(parsed["users"])
    noted = parsed.get("absent", {})  # older files have none
    absent = {name: _decode_absent(each, secret, noted.get(name)) for name, each in _HASHES.items()}
    return secret, credentials, _beside(absent, credentials)


def _decode_absent(
    mechanism: scram.Mechanism, secret: bytes, row: Mapping[str, Any] | None
) -> scram.AbsentUsers:
    if row is None:
        return scram.AbsentUsers(mechanism, secret)
    forms = [scram.SaltForm(*each) for each in row["forms"]]
    asked = bytearray(base64.b64decode(row["asked"], validate=True))
    if len(asked) != scram.SLOTS or max(asked) > len(forms) + 1:
        raise ValueError("forms that are cut")
    for each in forms:
        if not (0 < each.iterations <= scram.MAX_ITERATIONS and 0 <= each.size <= MAX_BYTES):
            raise ValueError("a form that nobody has")
    return scram.AbsentUsers(mechanism, secret, forms, asked)


def decode_users(rows: Mapping[str, Any]) -> Credentials:
    """Return the users of a file.

    Raises:
        ValueError: A user or a credential is wrong (or KeyError, TypeError, AttributeError).
    """
    return {
        user: {mechanism: _decode_one(mechanism, row) for mechanism, row in own.items()}
        for user, own in rows.items()
    }


def _decode_one(mechanism: str, row: Mapping[str, Any]) -> scram.Verifier:
    size = _HASHES[mechanism].size
    salt, stored, server = (base64.b64decode(row[name], validate=True) for name in _PARTS)
    iterations = row["iterations"]
    if type(iterations) is not int or not 0 < iterations <= scram.MAX_ITERATIONS:
        raise ValueError("a number of iterations that nobody has")
    if not salt or len(stored) != size or len(server) != size:
        raise ValueError("a key of another length")
    return scram.Verifier(salt, iterations, stored, server)
