"""The login of one connection: SaslHandshake and SaslAuthenticate, before other requests.

A listener that requires SASL gives each connection this gate, which passes only the requests that
may come now. After the login the dispatcher's gate replaces it, unless the login expires. Kafka's
SaslServerAuthenticator is the model: ApiVersions may come once, then a handshake; bare tokens
follow a handshake of version 0, and SaslAuthenticate follows one of version 1. A client that fails
is answered after ``connection.failed.authentication.delay.ms``, and its connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from siltstone.broker.api import BY_KEY
from siltstone.broker.net.gate import Gate
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.fair_places import FairPlaces
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import to_its_end
from siltstone.broker.security.principals import USER, Principal
from siltstone.broker.security.scram import SaslFailure
from siltstone.broker.services import Services
from siltstone.protocol.errors import ErrorCode, IllegalSaslState, ProtocolError
from siltstone.protocol.framing import API_VERSIONS
from siltstone.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from siltstone.protocol.messages.sasl_handshake import SaslHandshakeResponse
from siltstone.protocol.parts import Answer, LateAnswer

if TYPE_CHECKING:
    from siltstone.broker import context
    from siltstone.broker.security.audit import Audit
    from siltstone.broker.security.mechanisms import Conversation, Mechanisms

    Later: TypeAlias = Coroutine[Any, Any, Any]

_logger = logging.getLogger(__name__)

HANDSHAKE = 17
AUTHENTICATE = 36
_KEY_AND_VERSION = Struct(">hh")
_ERROR_CODE = slice(8, 10)  # in an answer to ApiVersions, after size and correlation id
_NO_ERROR = b"\0\0"
_MAX_CHECKS = 2
"""How many passwords of one listener are checked at the same time: each costs milliseconds."""
_LEAST_SECONDS_BETWEEN = 1.0
_TOO_LATE = "SaslAuthenticate request received after successful authentication"
_FAILED = "Authentication failed during authentication due to invalid credentials"


class Connection(Protocol):
    """The connection that logs in."""

    peer: str
    host: str
    principal: str
    services: Services

    def let_in(self, principal: str, *, stays: bool) -> None:
        """Serve a client that has logged in; if the login ``stays`` valid, its gate is removed."""

    def drain(self) -> None:
        """Accept no further request; close as soon as the owed answers have left."""


class State(Enum):
    """The kind of request that may come next."""

    VERSIONS = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "SaslAuthenticate"
    RAW = "a token"
    DONE = "any request"
    FAILED = "nothing"


class Logins:
    """The logins of one listener (loop only)."""

    def __init__(self, name: str, mechanisms: Mechanisms, audit: Audit | None = None) -> None:
        self.mechanisms = mechanisms
        self._audit = audit
        self.succeeded = 0
        self.failed = 0
        self.expired = 0
        self._places = FairPlaces(_MAX_CHECKS)
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._failures = BoundedLines(self._loop.time, 1)

    def begin(self, dispatcher: Gate) -> Login:
        """Return the login of a new connection."""
        return Login(self._loop, dispatcher, self)

    async def check(
        self, connection: Connection, conversation: Conversation, token: bytes
    ) -> bytes:
        """Let an io thread check a token; only a few at a time, so that other threads stay free.

        Addresses take turns, so that many clients of one address do not delay the others. If a
        client closes its connection, it keeps its place until its token is checked.

        Raises:
            SaslFailure: The login fails.
        """
        await self._places.take(connection.host)
        work = connection.services.io.run(conversation.step, token)
        work.add_done_callback(lambda _: self._places.release())
        return await to_its_end(work, SaslFailure)

    def note_success(self, principal: str, peer: str, mechanism: str) -> None:
        """Count a login."""
        self.succeeded += 1
        if self._audit is not None:
            self._audit.logged_in(principal, peer, self._name, mechanism)

    def note_failure(self, peer: str, mechanism: str | None, why: str) -> None:
        """Count a failed login, and log it; at most one line a second."""
        self.failed += 1
        if self._audit is not None:
            self._audit.login_failed(peer, self._name, str(mechanism), why)
        if not self._failures.takes():
            return
        _logger.warning(
            "login failed listener=%s peer=%s mechanism=%s others=%d reason=%s",
            self._name,
            peer,
            mechanism,
            self._failures.others(),
            why,
        )


class Login(Gate):
    """The gate of one connection (loop only).

    Each call passes the connection, and the gate keeps no reference to it: so the memory of a
    closed connection is freed at once, and not by the garbage collector.
    """

    __slots__ = (
        "_began", "_conversation", "_dispatcher", "_expires", "_is_again", "_is_noted", "_logins",
        "_loop", "_mechanism", "_restarted", "state",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, dispatcher: Gate, logins: Logins) -> None:
        # The base class is not initialised: this gate passes requests to the dispatcher.
        self.timer = None  # no turn is timed before the login
        self._loop = loop
        self._dispatcher = dispatcher
        self._logins = logins
        self._conversation: Conversation | None = None
        self._mechanism: str | None = None
        self._expires = math.inf
        self._restarted = -math.inf
        self._is_again = False
        self._is_noted = False
        self._began = loop.time()
        self.state = State.VERSIONS

    @property
    def is_open(self) -> bool:
        """Return whether the client has never logged in; a repeated login does not count."""
        return self.state is not State.DONE and not self._is_again

    @property
    def age(self) -> float:
        """Return how many seconds the client has been connected."""
        return self._loop.time() - self._began

    @property
    def seconds_left(self) -> float:
        """Return for how many seconds the login is valid; infinity before it or without an end."""
        return self._expires - self._loop.time()

    def dispatch(
        self,
        connection: context.Connection,
        buffer: memoryview,
        start: int,
        end: int,
        may_wait: bool = False,  # as in the base class
    ) -> Answer | context.Unwritten | LateAnswer:
        """Pass a frame on if it may come now.

        Raises:
            ProtocolError: The frame may not come, or the dispatcher refuses it; close the
            connection.
        """
        if self.state is State.RAW:
            return self._answer_raw(connection, bytes(buffer[start:end]))  # type: ignore[arg-type]  # it is one
        if end - start < _KEY_AND_VERSION.size:
            return self._dispatcher.dispatch(connection, buffer, start, end)
        key, version = _KEY_AND_VERSION.unpack_from(buffer, start)
        if self.state is State.DONE:
            self.timer = self._dispatcher.timer  # measures from the next turn on
            if key != HANDSHAKE and self._loop.time() >= self._expires:
                self._logins.expired += 1
                raise ProtocolError(
                    f"mechanism={self._mechanism} reason=the login has expired; "
                    "see connections.max.reauth.ms, and how long tokens count"
                )
        elif not self._may_come(key):
            self._logins.failed += 1
            raise ProtocolError(
                f"api={BY_KEY[key].name if key in BY_KEY else key} version={version} "
                f"reason=ILLEGAL_SASL_STATE: {self.state.value} must come first, since this "
                "listener asks for SASL"
            )
        reply = self._dispatcher.dispatch(connection, buffer, start, end, may_wait)
        if self.state is State.VERSIONS and key == API_VERSIONS and _is_answered(reply):
            self.state = State.HANDSHAKE
        return reply

    def handshake(
        self, connection: Connection, version: int, mechanism: str
    ) -> SaslHandshakeResponse | Later:
        """Answer a SaslHandshake: begin a conversation."""
        if self.state is State.DONE:
            if not self._begin_again():
                return SaslHandshakeResponse(IllegalSaslState.code)
        elif self.state is State.AUTHENTICATE:
            refused = SaslHandshakeResponse(IllegalSaslState.code)
            return self._fail(
                connection, refused, "a second SaslHandshake instead of SaslAuthenticate"
            )
        names = self._logins.mechanisms.names
        is_other = self._is_again and mechanism != self._mechanism
        if mechanism not in names or is_other:
            code = ErrorCode.unsupported_sasl_mechanism
            why = "another mechanism than before" if is_other else "a mechanism that is not enabled"
            if not self._is_again:
                self._mechanism = mechanism if mechanism in names else None
            return self._fail(connection, SaslHandshakeResponse(code, names), why)
        self._mechanism = mechanism
        self._conversation = self._logins.mechanisms.begin(mechanism)
        self.state = State.RAW if version == 0 else State.AUTHENTICATE
        return SaslHandshakeResponse(0, names)

    def authenticate(
        self, connection: Connection, token: bytes
    ) -> SaslAuthenticateResponse | Later:
        """Answer a SaslAuthenticate: handle the client's next token."""
        conversation = self._conversation
        if self.state is not State.AUTHENTICATE or conversation is None:
            return SaslAuthenticateResponse(IllegalSaslState.code, _TOO_LATE)
        if conversation.blocks(token):
            return self._authenticate_later(connection, conversation, token)
        try:
            answer = conversation.step(token)
            lifetime_ms = self._finish(connection, conversation)
        except SaslFailure as failure:
            return self._refuse(connection, failure)
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    async def _authenticate_later(
        self, connection: Connection, conversation: Conversation, token: bytes
    ) -> SaslAuthenticateResponse:
        try:
            answer = await self._logins.check(connection, conversation, token)
            await self._note_refusal(connection, conversation)
            lifetime_ms = self._finish(connection, conversation)
        except SaslFailure as failure:
            refused: SaslAuthenticateResponse = await self._refuse(connection, failure)
            return refused
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    async def _answer_raw(self, connection: Connection, token: bytes) -> bytes:
        """Answer a bare token with a bare token; no token can express a refusal (KIP-43)."""
        conversation = self._conversation
        if conversation is None:
            raise ProtocolError("reason=a token without a conversation")
        try:
            if conversation.blocks(token):
                answer = await self._logins.check(connection, conversation, token)
                await self._note_refusal(connection, conversation)
            else:
                answer = conversation.step(token)
            self._finish(connection, conversation)
        except SaslFailure as failure:
            self.state = State.FAILED
            if not self._is_noted:
                self._note(connection, failure.why)
                await self._delay(connection)
            raise ProtocolError(f"mechanism={self._mechanism} reason=login failed") from failure
        return len(answer).to_bytes(4, "big") + answer

    async def _note_refusal(self, connection: Connection, conversation: Conversation) -> None:
        """Remember that the login has failed; the client learns it only after its next token."""
        if conversation.refusal is not None:
            self._is_noted = True
            self._note(connection, conversation.refusal)
            await self._delay(connection)

    def _finish(self, connection: Connection, conversation: Conversation) -> int:
        """Let the client in if it has proven its name; return for how many ms that is valid."""
        if not conversation.is_complete:
            return 0
        principal = str(Principal(USER, conversation.user))
        if self._is_again and principal != connection.principal:
            raise SaslFailure(_FAILED, "another user than before")
        mechanism = str(self._mechanism)
        proven_ms = conversation.lifetime_ms
        lifetime_ms = self._logins.mechanisms.max_lifetime_ms(mechanism, proven_ms)
        self._expires = self._loop.time() + lifetime_ms / 1000 if lifetime_ms else math.inf
        self._conversation = None
        self._logins.note_success(principal, connection.peer, mechanism)
        self.state = State.DONE
        connection.let_in(principal, stays=not lifetime_ms)
        return lifetime_ms

    def _begin_again(self) -> bool:
        """Return whether the client may log in again now, at most once a second (KIP-368)."""
        now = self._loop.time()
        if self._expires == math.inf or now < self._restarted + _LEAST_SECONDS_BETWEEN:
            return False
        self._restarted = now
        self._is_again = True
        return True

    def _may_come(self, key: int) -> bool:
        if self.state is State.VERSIONS:
            return key in {API_VERSIONS, HANDSHAKE}
        if self.state is State.AUTHENTICATE:
            return key in {AUTHENTICATE, HANDSHAKE}
        return self.state is State.HANDSHAKE and key == HANDSHAKE

    def _refuse(self, connection: Connection, failure: SaslFailure) -> Later:
        code = ErrorCode.sasl_authentication_failed
        return self._fail(connection, SaslAuthenticateResponse(code, str(failure)), failure.why)

    def _fail(self, connection: Connection, response: Any, why: str) -> Later:
        """Return the coroutine that answers a refused client and then closes its connection."""
        self.state = State.FAILED
        if not self._is_noted:
            self._note(connection, why)
        return self._fail_later(connection, response)

    async def _fail_later(self, connection: Connection, response: Any) -> Any:
        if self._is_noted:
            await LoopShare().turn()  # this must be a task, whose answer `drain` waits for
        else:
            await self._delay(connection)
        connection.drain()
        return response

    async def _delay(self, connection: Connection) -> None:
        settings = connection.services.settings.server
        await asyncio.sleep(settings.security.connection_failed_authentication_delay_ms / 1000)

    def _note(self, connection: Connection, why: str) -> None:
        self._logins.note_failure(connection.peer, self._mechanism, why)


def _is_answered(reply: object) -> bool:
    """Return whether ApiVersions was answered without error: after an error it may come again."""
    return isinstance(reply, bytes) and reply[_ERROR_CODE] == _NO_ERROR
