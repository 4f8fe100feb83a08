"""SaslHandshake (17), versions 0-1, and SaslAuthenticate (36), versions 0-2: nobody logs in here.

As on a listener without SASL of Apache Kafka: the answer is ILLEGAL_SASL_STATE, so that the client
tells its user at once. What it says of itself reaches no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.errors import IllegalSaslState
from siltstone.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from siltstone.protocol.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from siltstone.protocol.messages.sasl_handshake import SaslHandshakeRequest


def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer that there is no mechanism."""
    del request
    _note(context)
    return SaslHandshakeResponse(IllegalSaslState.code)


def authenticate(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Answer that nothing has to be proven."""
    del request
    _note(context)
    return SaslAuthenticateResponse(IllegalSaslState.code, IllegalSaslState().message)


def _note(context: RequestContext) -> None:
    if context.connection is not None:
        context.connection.note_login()
