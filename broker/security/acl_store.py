"""The ACLs: ``siltstone-acls.json``, a file of the first log directory.

JSON with an array for each rule: resource, pattern, name, principal, host, operation, permission.
The file has the mode 0600 and is replaced atomically. A removal removes a rule, never a resource:
the other rules for the resource stay (CVE-2024-27309).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.acl import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    find_host_fault,
)
from siltstone.broker.security.private_file import PrivateWriter, load_private
from siltstone.storage import files
from siltstone.storage.directory.strict_json import read_sealed, seal

if TYPE_CHECKING:
    from siltstone.broker.security.authorizer import Authorizer

_logger = logging.getLogger(__name__)

FILE_NAME: Final = files.ACLS
_VERSION: Final = 1
_MAX_TOLD: Final = 20


def load_acls(directory: Path) -> list[Acl]:
    """Return the rules in a log directory; none if there is no file. Blocks.

    Rules whose host is refused today are kept, apply to no client, and are named in a warning.

    Raises:
        PrivateFileError: The file cannot be trusted, or is damaged.
    """
    remedy = "make the ACLs again with kafka-acls as one of super.users"
    acls = load_private(directory / FILE_NAME, _decode, remedy) or []
    faulty = [acl for acl in acls if find_host_fault(acl.host) is not None]
    if faulty:
        _logger.warning(
            "rules never apply, since their hosts are neither addresses nor networks rules=%d "
            "hosts=%s; replace them with kafka-acls",
            len(faulty),
            json.dumps(list(dict.fromkeys(acl.host for acl in faulty))[:_MAX_TOLD]),
        )
    return acls


class AclWriter:
    """Changes the rules of a running broker, one change after the other (loop only)."""

    def __init__(self, directory: Path, authorizer: Authorizer, io: IoThreads) -> None:
        self._authorizer = authorizer
        self.file = PrivateWriter(directory / FILE_NAME, "ACLs", io)

    async def add(self, acls: Iterable[Acl]) -> None:
        """Write rules, then put them in force; this is completed even if the caller is cancelled.

        Raises:
            KafkaStorageError: The file could not be written, so nothing has changed.
            PolicyViolation: There would be too many rules.
        """
        await self.file.make(self._add(acls))

    async def remove(self, filters: Iterable[AclFilter]) -> list[list[Acl]]:
        """Remove the rules that match, first from the disk; return the removed rules by filter.

        Raises:
            KafkaStorageError: As in `add`.
        """
        return await self.file.make(self._remove(filters))

    async def replace(self, acls: Iterable[Acl]) -> None:
        """Replace all rules by these, first on the disk.

        Raises:
            KafkaStorageError: The file could not be written, so nothing has changed.
            PolicyViolation: The rules are too many.
        """
        await self.file.make(self._replace(acls))

    async def _add(self, acls: Iterable[Acl]) -> None:
        await self._replace([*self._authorizer, *acls])

    async def _remove(self, filters: Iterable[AclFilter]) -> list[list[Acl]]:
        found = [self._authorizer.find(each) for each in filters]
        doomed = {acl for each in found for acl in each}
        await self._replace(acl for acl in self._authorizer if acl not in doomed)
        return found

    async def _replace(self, acls: Iterable[Acl]) -> None:
        wanted = dict.fromkeys(acls)
        doomed = {acl for acl in self._authorizer if acl not in wanted}
        added = [acl for acl in wanted if acl not in self._authorizer]
        if doomed or added:
            await self.file.write(_encode, list(wanted))
            self._authorizer.remove(doomed)
            self._authorizer.add(added)


def _encode(acls: list[Acl]) -> bytes:
    rows = ",\n ".join(json.dumps(encode_acl(acl)) for acl in acls)
    return seal(f'{{"version": {_VERSION}, "acls": [\n {rows}\n]}}'.encode())


def encode_acl(acl: Acl) -> list[str]:
    """Return a rule in the form of the file."""
    kind, pattern, name = acl.pattern
    return [
        kind.name,
        pattern.name,
        name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    ]


def _decode(content: bytes) -> list[Acl]:
    """Return the rules."""
    rows = read_sealed(content, _VERSION, ("acls",))["acls"]
    if not isinstance(rows, list):
        raise TypeError("no list of rules")
    return [decode_acl(row) for row in rows]


def decode_acl(row: list[Any]) -> Acl:
    """Return the rule of a row.

    Raises:
        ValueError: The row is no rule (or KeyError, TypeError, AttributeError, InvalidRequest).
    """
    kind, pattern, name, principal, host, operation, permission = row
    if not all(isinstance(each, str) for each in row):
        raise TypeError("a part that is no text")
    acl = Acl(
        Pattern(ResourceType[kind], PatternType[pattern], name),
        principal,
        host,
        Operation[operation],
        Permission[permission],
    )
    check_acl(acl)
    return acl
