"""The quotas: ``siltstone-quotas.json``, a file of the first log directory.

The file is JSON with an object for each entity: its names by type, where null is the default, and
its quotas. Its mode is 0600, since a user that may write it can slow down all clients; it is
replaced atomically.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.private_file import PrivateWriter, load_private
from siltstone.broker.security.quotas.book import Quotas, Values, check_quota, make_entity
from siltstone.storage import files
from siltstone.storage.directory.strict_json import read_sealed, seal

FILE_NAME: Final = files.QUOTAS
_VERSION: Final = 1


def load_quotas(directory: Path) -> Values:
    """Return the quotas in a log directory; none if there is no file. Blocks.

    Raises:
        PrivateFileError: The file cannot be trusted, or is damaged.
    """
    remedy = "set the quotas again with kafka-configs"
    return load_private(directory / FILE_NAME, _decode, remedy) or {}


class QuotaWriter:
    """Changes the quotas of a running broker, one change after the other (loop only).

    ``on_change`` is called after each change.
    """

    def __init__(
        self,
        directory: Path,
        quotas: Quotas,
        io: IoThreads,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._quotas = quotas
        self._on_change = on_change
        self.file = PrivateWriter(directory / FILE_NAME, "quotas", io)

    async def change(self, edit: Callable[[Values], None]) -> None:
        """Write a change, then put it in force; completed even if the caller is cancelled.

        Raises:
            KafkaStorageError: The file could not be written, so nothing has changed.
            PolicyViolation: There would be too many quotas.
        """
        await self.file.make(self._change(edit))

    async def _change(self, edit: Callable[[Values], None]) -> None:
        draft = {entity: dict(own) for entity, own in self._quotas.values.items()}
        edit(draft)
        if draft == self._quotas.values:
            return
        await self.file.write(_encode, draft)
        self._quotas.replace(draft)
        self._on_change()


def _encode(values: Values) -> bytes:
    rows = ",\n ".join(map(json.dumps, encode_quotas(values)))
    return seal(f'{{"version": {_VERSION}, "quotas": [\n {rows}\n]}}'.encode())


def encode_quotas(values: Values) -> list[dict[str, Any]]:
    """Return quotas in the form of the file."""
    return [{"entity": dict(entity), "quotas": own} for entity, own in values.items()]


def _decode(content: bytes) -> Values:
    """Return the quotas."""
    rows = read_sealed(content, _VERSION, ("quotas",))["quotas"]
    if not isinstance(rows, list):
        raise TypeError("no list of quotas")
    return decode_quotas(rows)


def decode_quotas(rows: Iterable[Any]) -> Values:
    """Return the quotas of a file.

    Raises:
        ValueError: A row has no quotas (or KeyError, TypeError, AttributeError, InvalidRequest).
    """
    values: Values = {}
    for row in rows:
        names: dict[str, Any] = row["entity"]
        if not all(name is None or isinstance(name, str) for name in names.values()):
            raise TypeError("a name that is no text")
        entity = make_entity(names.items())
        for key, value in row["quotas"].items():
            if isinstance(value, bool):
                raise TypeError("a quota that is no number")
            check_quota(entity, key, value)
            values.setdefault(entity, {})[key] = float(value)
    return values
