"""SaslHandshake (17), versions 0-1, and SaslAuthenticate (36), versions 0-2.

v0 of SaslHandshake is followed by bare tokens (KIP-43), v1 by SaslAuthenticate (KIP-152); v1 of
SaslAuthenticate says how long the login is valid (KIP-368); v2 compact encoding. On a listener
without SASL the answer is ILLEGAL_SASL_STATE, as in Apache Kafka, so the client can report it to
its user at once. What a client claims about itself is never logged.

Differs from Kafka: GSSAPI and delegation tokens are refused; OAUTHBEARER accepts unsigned tokens
only on loopback and if a setting allows them, and only one token in a conversation; a request that
comes between SaslHandshake and SaslAuthenticate closes the connection, where Kafka first answers it
with ILLEGAL_SASL_STATE; a wrong password for SCRAM and an unknown user fail at the same token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import IllegalSaslState
from siltstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from siltstone.broker.context import Login


def handshake(context: RequestContext, request: SaslHandshakeRequest) -> Any:
    """Begin a login by a mechanism, if the listener has logins."""
    login = _find(context)
    if login is None:
        return SaslHandshakeResponse(IllegalSaslState.code)
    return login.handshake(context.connection, context.version, request.mechanism)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> Any:
    """Handle the client's next token."""
    login = _find(context)
    if login is None:
        return SaslAuthenticateResponse(IllegalSaslState.code, IllegalSaslState().message)
    return login.authenticate(context.connection, bytes(request.auth_bytes))


def _find(context: RequestContext) -> Login | None:
    """Return the login of the connection; if it has no login, log that the client tried one."""
    return None if context.connection is None else context.connection.find_login()
