"""The security of a broker: users, logins, rights, quotas and the audit log.

The code of each part is imported only when a listener or a setting needs it, or when there are
users.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.principals import ANONYMOUS
from siltstone.broker.security.rights import CLUSTER, DESCRIBE, Rights
from siltstone.config.oauth import URL, OAuthSettings, path_of
from siltstone.config.server import ServerConfig
from siltstone.storage import files
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.broker.security.acl_store import AclWriter
    from siltstone.broker.security.audit import Audit
    from siltstone.broker.security.authorizer import Authorizer
    from siltstone.broker.security.mechanisms import Mechanisms
    from siltstone.broker.security.oauth.tokens import TokenChecker
    from siltstone.broker.security.quotas.book import Quotas
    from siltstone.broker.security.quotas.store import QuotaWriter
    from siltstone.broker.security.users import UserStore, UserWriter


_logger = logging.getLogger(__name__)

_ANONYMOUS: Final = str(ANONYMOUS)
_MAX_KNOWN: Final = 10_000


class SecurityFault(Exception):  # noqa: N818  # it is in the settings
    """A listener cannot let clients log in; the text says why and what to do."""


class Client(Protocol):
    """The client of a connection."""

    @property
    def principal(self) -> str:
        """The principal that the client has proven to be."""

    @property
    def host(self) -> str:
        """The address that the client connects from: no brackets, perhaps a zone (``%eth0``).

        No IPv4 address comes in the form of IPv6, since listeners on IPv6 accept IPv6 only.
        """


class Security:
    """Users, how clients log in at each listener, and what they may do (loop only).

    ``mechanisms`` has an entry for each listener where clients have to log in. ``authorizer`` and
    ``acls`` are None if all clients may do everything. ``audit`` is None if, in addition, no client
    logs in and no audit log is wanted. ``writer`` changes the ``users``, and ``quota_writer``
    changes the ``quotas``.
    """

    def __init__(self, directory: Path, io: IoThreads, clock: Clock) -> None:
        self.mechanisms: Mapping[str, Mechanisms] = {}
        self.authorizer: Authorizer | None = None
        self.acls: AclWriter | None = None
        self.audit: Audit | None = None
        self._on_quotas: Callable[[Quotas], None] = lambda _: None
        self._known: dict[tuple[str, str], Rights] = {}
        self.users = OnFirstUse(self._make_users)
        self.writer = OnFirstUse(self._make_writer)
        self.quotas = OnFirstUse(self._make_quotas)
        self.quota_writer = OnFirstUse(self._make_quota_writer)
        self._directory = directory
        self._io = io
        self._clock = clock

    def load(self, server: ServerConfig) -> None:
        """Read users, quotas and ACLs, and prepare the logins of listeners. Blocks.

        Raises:
            PrivateFileError: A file of users, quotas or ACLs cannot be trusted, or is damaged.
            SecurityFault: A listener accepts tokens and has no keys to check them.
            SecurityFault: The audit log cannot be written.
            OSError: The system does not say which files there are.
        """
        asked = {each.name: server.sasl_of(each) for each in server.bound_listeners}
        sasl = {name: settings for name, settings in asked.items() if settings is not None}
        if sasl or files.find_size(str(self._directory / files.USERS)) is not None:
            self.users.get().load()
        if sasl:
            from siltstone.broker.security.mechanisms import Mechanisms  # noqa: PLC0415  # few starts need it

            self.mechanisms = {
                name: Mechanisms(
                    each,
                    self.users.get(),
                    None if each.oauth is None else self._make_checker(name, each.oauth),
                )
                for name, each in sasl.items()
            }
        if files.find_size(str(self._directory / files.QUOTAS)) is not None:
            from siltstone.broker.security.quotas.store import load_quotas  # noqa: PLC0415

            self.quotas.get().replace(load_quotas(self._directory))
        if server.security.authorizer_class_name:
            self._load_acls(server)
        if sasl or server.security.authorizer_class_name or server.security.audit_log_file:
            from siltstone.broker.security.audit import Audit  # noqa: PLC0415  # few starts need it

            file = Path(server.security.audit_log_file) if server.security.audit_log_file else None
            try:
                self.audit = Audit(self._clock, file)
            except OSError as error:
                raise SecurityFault(
                    f"audit.log.file {file} cannot be written: {error.strerror}; choose another, "
                    "or make its folder"
                ) from error

    def rights_of(self, client: Client | None) -> Rights | None:
        """Return a client's rights, one object for a principal and host; None if all is allowed."""
        if self.authorizer is None or self.audit is None:
            return None
        who = (_ANONYMOUS, "") if client is None else (client.principal, client.host)
        rights = self._known.get(who)
        if rights is None:
            from siltstone.broker.security.rights import Rights  # noqa: PLC0415  # few starts need it

            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            rights = self._known[who] = Rights(self.authorizer, self.audit, *who)
        return rights

    def may_describe(self, client: Client) -> bool:
        """Return whether a client may describe the cluster; if not, the audit log says so."""
        rights = self.rights_of(client)
        return rights is None or rights.may(DESCRIBE, CLUSTER)

    def on_quotas(self, callback: Callable[[Quotas], None]) -> None:
        """Call ``callback`` with the quotas: now if there may be some, and after each change."""
        self._on_quotas = callback
        if self.quotas.built is not None:
            callback(self.quotas.built)

    async def finish(self) -> None:
        """Wait for changes of users, ACLs and quotas that have begun; no new ones come."""
        for each in (self.acls, self.writer.built, self.quota_writer.built):
            if each is not None:
                await each.file.finish()
        if self.users.built is not None:
            try:
                await self._io.run(self.users.built.keep)
            except OSError as error:
                _logger.warning("users not kept file=%s reason=%s", self.users.built.path, error)

    def close(self) -> None:
        """Close the audit log."""
        if self.audit is not None:
            self.audit.close()

    def _make_checker(self, listener: str, settings: OAuthSettings) -> TokenChecker:
        from siltstone.broker.security.oauth import tokens  # noqa: PLC0415  # few listeners need it

        if settings.is_unsecured:
            _logger.warning(
                "the listener %s takes tokens that nobody has signed: every client that reaches "
                "it may give any name; for tests alone",
                listener,
            )
            return tokens.TokenChecker(settings, self._clock, None)
        try:
            from siltstone.broker.security.oauth import key_sources, keys  # noqa: PLC0415  # few listeners need it
        except ImportError as error:
            raise SecurityFault(
                f"the listener {listener} takes OAUTHBEARER, but {error.name} is not installed; in "
                "a clone of siltstone: pip install '.[oauth]'"
            ) from error
        where = f"{URL} {settings.url} of the listener {listener}"
        try:
            found = keys.Keys(settings, self._clock, key_sources.make_reader(settings))
            if path_of(settings.url) is None:
                found.refresh()  # the server with the keys may start later
            else:
                found.load()
        except key_sources.SourceError as error:
            raise SecurityFault(f"{where} cannot be used: {error}") from error
        for claim, is_expected in (("audience", settings.audiences), ("issuer", settings.issuer)):
            if not is_expected:
                _logger.warning(
                    "the listener %s takes tokens of any %s; set sasl.oauthbearer.expected.%s",
                    *(listener, claim, claim),
                )
        return tokens.TokenChecker(settings, self._clock, found)

    def _make_users(self) -> UserStore:
        from siltstone.broker.security.users import UserStore  # noqa: PLC0415  # few starts need it

        return UserStore(self._directory)

    def _make_writer(self) -> UserWriter:
        from siltstone.broker.security.users import UserWriter  # noqa: PLC0415  # few starts need it

        return UserWriter(self.users.get(), self._io)

    def _make_quotas(self) -> Quotas:
        from siltstone.broker.security.quotas.book import Quotas  # noqa: PLC0415  # few starts need it

        return Quotas()

    def _make_quota_writer(self) -> QuotaWriter:
        from siltstone.broker.security.quotas.store import QuotaWriter  # noqa: PLC0415  # few starts need it

        quotas = self.quotas.get()
        return QuotaWriter(self._directory, quotas, self._io, lambda: self._on_quotas(quotas))

    def _load_acls(self, server: ServerConfig) -> None:
        from siltstone.broker.security.acl_store import AclWriter, load_acls  # noqa: PLC0415
        from siltstone.broker.security.authorizer import Authorizer  # noqa: PLC0415  # few starts need it
        from siltstone.broker.security.principals import (  # noqa: PLC0415
            OURSELVES,
            parse_super_users,
        )

        self.authorizer = Authorizer(
            load_acls(self._directory),
            super_users=parse_super_users(server.security.super_users) | {OURSELVES},
            allows_without_acls=server.security.allow_everyone_if_no_acl_found,
        )
        self.acls = AclWriter(self._directory, self.authorizer, self._io)
