"""UnregisterBroker (64) and UnregisterController (94), both version 0.

This broker is the only one of its cluster, and the only controller, so every other id is unknown.

Differs from Kafka: UnregisterBroker of this broker is refused with INVALID_REQUEST, where Kafka
lets its only broker go.
"""

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.security.rights import ALTER, CLUSTER
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from siltstone.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)


def unregister_broker(
    context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Refuse: no other broker exists, and this one stays."""
    if not context.may(ALTER, CLUSTER):
        return UnregisterBrokerResponse(**CLUSTER_REFUSED)
    if request.broker_id == context.services.identity.node_id:
        code, why = ErrorCode.invalid_request, "is the only one of its cluster; stop it instead"
    else:
        code, why = ErrorCode.broker_id_not_registered, "is not currently registered"
    return UnregisterBrokerResponse(0, code, f"Broker ID {request.broker_id} {why}")


def unregister_controller(
    context: RequestContext, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Refuse, in the words of Kafka: no other controller exists, and this one is active."""
    if not context.may(ALTER, CLUSTER):
        return UnregisterControllerResponse(**CLUSTER_REFUSED)
    if request.controller_id == context.services.identity.node_id:
        why = "Controller cannot unregister itself while it is active."
        return UnregisterControllerResponse(0, ErrorCode.invalid_request, why)
    why = f"Controller ID {request.controller_id} is not currently registered."
    return UnregisterControllerResponse(0, ErrorCode.controller_id_not_registered, why)
