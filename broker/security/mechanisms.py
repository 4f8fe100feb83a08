"""The conversations by which clients of one listener log in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH, PlainServer
from siltstone.broker.security.scram import MECHANISMS, ScramServer, Verifier, make_verifier
from siltstone.config.oauth import OAUTHBEARER
from siltstone.config.security import SaslSettings

if TYPE_CHECKING:
    from siltstone.broker.security.oauth.conversation import OAuthBearerServer
    from siltstone.broker.security.oauth.tokens import TokenChecker
    from siltstone.broker.security.users import UserStore

Conversation: TypeAlias = "PlainServer | ScramServer | OAuthBearerServer"
"""One login by one mechanism.

``step`` returns the answer to the client's next token, or raises SaslFailure; it runs on an io
thread if ``blocks`` says that it would take long with this token. Once ``is_complete``, ``user`` is
proven for ``lifetime_ms``; 0 means as long as the connection lasts. ``refusal`` is the reason if
the last step's answer is a refusal, else None.
"""


class Mechanisms:
    """The mechanisms of a listener (constant after construction, which blocks to hash passwords).

    Without ``checker`` the listener accepts no tokens.
    """

    def __init__(
        self, settings: SaslSettings, users: UserStore, checker: TokenChecker | None = None
    ) -> None:
        self.names = settings.mechanisms
        self.max_receive_bytes = settings.max_receive_bytes
        self._max_reauth_ms = settings.max_reauth_ms
        self._users = users
        self._plain_users = {
            user: make_verifier(PLAIN_HASH, password)
            for user, password in settings.plain_users.items()
        }
        self._makers: dict[str, Callable[[], Conversation]] = {
            PLAIN: partial(PlainServer, self._find_plain, users.proven),
            **{
                name: partial(ScramServer, mechanism, partial(users.find, name))
                for name, mechanism in MECHANISMS.items()
            },
        }
        if checker is not None:
            from siltstone.broker.security.oauth import conversation  # noqa: PLC0415  # few take them

            self._makers[OAUTHBEARER] = partial(conversation.OAuthBearerServer, checker)

    def max_lifetime_ms(self, mechanism: str, proven_ms: int) -> int:
        """Return for how many ms a login is valid, given the ms of its proof; 0 means no limit.

        The shorter of the two times counts, as in Kafka's SaslServerAuthenticator.
        """
        allowed_ms = self._max_reauth_ms[mechanism]
        return min(proven_ms, allowed_ms) if proven_ms and allowed_ms else proven_ms or allowed_ms

    def begin(self, mechanism: str) -> Conversation:
        """Return a new conversation."""
        return self._makers[mechanism]()

    def _find_plain(self, user: str) -> tuple[Verifier, bool]:
        found = self._users.find(PLAIN, user)
        given = self._plain_users.get(user)
        return found if given is None else (given, True)
