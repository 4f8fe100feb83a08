"""Readers of the HTTP port: a user with its password (HTTP Basic), or the control token.

If the port asks for certificates, a client that shows one has the name in its certificate. With an
authorizer a user also needs DESCRIBE on the cluster, since the pages are about the whole cluster.
All readers may read the health pages; if there are no users, everybody may.

The users are the same as on listeners, with the password of any mechanism. The check of a password
costs milliseconds on an io thread, also for a user that does not exist. A failure is answered after
``connection.failed.authentication.delay.ms``, as on listeners.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from siltstone.broker.http.values import HttpRequest, HttpResponse, text
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.fair_places import FairPlaces
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import to_its_end
from siltstone.broker.security.audit import Audit
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.principals import ANONYMOUS, USER, Principal
from siltstone.broker.security.scram import MECHANISMS, proves
from siltstone.broker.security.users import UserStore
from siltstone.config.tls import HTTP

_logger = logging.getLogger(__name__)

_HASHES = {PLAIN: PLAIN_HASH, **MECHANISMS}
_MAX_CHECKS = 2
"""How many passwords are checked at the same time, so that some io threads stay free."""
_HEALTH = frozenset({"/healthz", "/readyz"})


class Reader(NamedTuple):
    """A reader: the principal that it has proven to be, and the host of its connection."""

    principal: str
    host: str

    @classmethod
    def of(cls, request: HttpRequest, name: str | None) -> "Reader":
        """Return the reader of a request, with the name that was proven, if one was."""
        principal = ANONYMOUS if name is None else Principal(USER, name)
        return cls(str(principal), request.peer.rpartition(":")[0])


async def refuse_strangers(
    is_trusted: Callable[[Mapping[bytes, bytes]], bool],
    may_read: Callable[[Reader], bool],
    request: HttpRequest,
) -> HttpResponse | None:
    """Refuse a reader without the control token or a certificate with the right.

    This is used if there are no users with passwords.
    """
    if request.path in _HEALTH or is_trusted(request.headers):
        return None
    if request.certified is not None:
        return _refuse_unless(may_read, request.certified, request)
    return text(
        403,
        "only a client with the control token may read this here; set "
        "http.security.protocol=SASL_SSL for users, or http.anonymous.reads=true for everybody",
    )


def _refuse_unless(
    may_read: Callable[[Reader], bool], name: str, request: HttpRequest
) -> HttpResponse | None:
    if may_read(Reader.of(request, name)):
        return None
    return text(403, "this needs the right DESCRIBE on the cluster (docs/security.md)")


class Credentials:
    """Checks the names and passwords of readers (loop only)."""

    def __init__(
        self,
        users: UserStore,
        io: IoThreads,
        is_trusted: Callable[[Mapping[bytes, bytes]], bool],
        delay_seconds: Callable[[], float],
        may_read: Callable[[Reader], bool],
        audit: Audit | None = None,
    ) -> None:
        self._users = users
        self._io = io
        self._is_trusted = is_trusted
        self._delay_seconds = delay_seconds
        self._may_read = may_read
        self._audit = audit
        self._failures = BoundedLines(asyncio.get_running_loop().time, 1)
        self._places = FairPlaces(_MAX_CHECKS)

    async def refuse(self, request: HttpRequest) -> HttpResponse | None:
        """Return a refusal if a request has no name, or a wrong password; None if it may go on."""
        if self._is_trusted(request.headers):
            return None
        given = _read_basic(request.headers.get(b"authorization", b""))
        if given is not None and await self._check(request, *given):
            if request.path in _HEALTH:
                return None
            return _refuse_unless(self._may_read, given[0], request)
        answer = text(
            401,
            "log in by a user and its password (HTTP Basic), or by the control token",
            ("WWW-Authenticate", 'Basic realm="siltstone", charset="UTF-8"'),
        )
        if b"authorization" not in request.headers:
            return answer
        self._note(request.peer)
        return replace(answer, after_seconds=self._delay_seconds())

    def find_name(self, request: HttpRequest) -> str | None:
        """Return the user whose password came with an admitted request, if one did."""
        given = _read_basic(request.headers.get(b"authorization", b""))
        return None if given is None else given[0]

    async def _check(self, request: HttpRequest, user: str, password: str) -> bool:
        """Let an io thread check a password that is not known to be right; addresses take turns.

        If the client closes its connection, it keeps its place until the check is done.
        """
        if self._is_proven(user, password):
            return True
        await self._places.take(request.peer.rpartition(":")[0])
        work = self._io.run(self._is_right, user, password)
        work.add_done_callback(lambda _: self._places.release())
        return await to_its_end(work)

    def _is_proven(self, user: str, password: str) -> bool:
        is_proven = False
        for name in _HASHES:
            verifier, is_known = self._users.find(name, user)
            is_proven |= self._users.proven.has(verifier, user, password) and is_known
        return is_proven

    def _is_right(self, user: str, password: str) -> bool:
        """Return whether a password is right. Blocks for the same time if the user is unknown."""
        is_right = False
        for name, mechanism in _HASHES.items():
            verifier, is_known = self._users.find(name, user)
            if proves(mechanism, verifier, password) and is_known:
                self._users.proven.note(verifier, user, password)
                is_right = True
        return is_right

    def _note(self, peer: str) -> None:
        if self._audit is not None:
            self._audit.login_failed(peer, HTTP, "Basic", "wrong credentials")
        if self._failures.takes():
            _logger.warning("login failed listener=http peer=%s reason=wrong credentials", peer)


def _read_basic(header: bytes) -> tuple[str, str] | None:
    """Return the name and the password of an Authorization header; None if it is not valid."""
    scheme, _, packed = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = (
            base64.b64decode(packed.strip(), validate=True).decode().partition(":")
        )
    except ValueError:
        return None
    return (user, password) if colon and user and password else None
