"""SaslHandshake (17), versions 0-1, and SaslAuthenticate (36), versions 0-2.

v0 of SaslHandshake is followed by bare tokens (KIP-43), v1 by SaslAuthenticate (KIP-152); v1 of
SaslAuthenticate says how long the login counts (KIP-368); v2 compact encoding. On a listener
without SASL the answer is ILLEGAL_SASL_STATE, as of Apache Kafka, so that the client tells its user
at once. What a client says of itself reaches no log.

Differs from Kafka: GSSAPI and delegation tokens are refused; OAUTHBEARER takes unsigned tokens only
where that is set, on loopback, and no second token in one conversation; a request that comes
between SaslHandshake and SaslAuthenticate closes the connection, where Kafka first answers it with
ILLEGAL_SASL_STATE; a wrong password for SCRAM and an unknown user fail at the same token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.protocol.errors import IllegalSaslState
from siltstone.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from siltstone.protocol.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from siltstone.broker.context import Login
    from siltstone.broker.services import RequestContext
    from siltstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from siltstone.protocol.messages.sasl_handshake import SaslHandshakeRequest


def handshake(context: RequestContext, request: SaslHandshakeRequest) -> Any:
    """Begin a login by a mechanism, where there is one."""
    login = _find(context)
    if login is None:
        return SaslHandshakeResponse(IllegalSaslState.code)
    return login.handshake(context.connection, context.version, request.mechanism)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> Any:
    """Take the client's next token."""
    login = _find(context)
    if login is None:
        return SaslAuthenticateResponse(IllegalSaslState.code, IllegalSaslState().message)
    return login.authenticate(context.connection, bytes(request.auth_bytes))


def _find(context: RequestContext) -> Login | None:
    """Return the login of the connection; without one log that somebody wanted it."""
    return None if context.connection is None else context.connection.find_login()
