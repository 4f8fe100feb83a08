"""FindCoordinator (10), versions 0-6: one node coordinates everything.

v1 key types (KIP-98) · v4 several keys at once (KIP-699) · v5 retriable authorization errors ·
v6 share groups (KIP-932), which are not served. Without it librdkafka takes a broker for one of
before 0.8.2 and never compresses with lz4.

Differs from Kafka: a coordinator is there when the first answer names it, where Kafka first answers
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.errors import InvalidRequest, KafkaError
from siltstone.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from siltstone.broker.coordination.journal import CoordinatorLog
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest

_GROUP, _TRANSACTION = 0, 1
_FIRST_WITH_KEYS = 4
_NO_ERROR = "NONE"
"""What Kafka says to old versions when nothing is wrong; to others it says nothing."""


def find(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    """Name this broker for every key, by the address that the client can reach it at.

    The coordinator's topic is made first, so that nobody has to ask again.
    """
    if request.key_type not in {_GROUP, _TRANSACTION}:
        error = InvalidRequest(f"coordinators of type {request.key_type} are not served")
        return _refuse(context, request, error)
    rooms = context.rooms
    is_group = request.key_type == _GROUP
    journal = rooms.groups().journal if is_group else rooms.transactions().journal
    if not journal.is_created:
        return _find_when_created(context, request, journal)
    return _find(context, request)


async def _find_when_created(
    context: RequestContext, request: FindCoordinatorRequest, journal: CoordinatorLog
) -> FindCoordinatorResponse:
    try:
        await journal.ensure_created()
    except KafkaError as error:
        return _refuse(context, request, error)
    return _find(context, request)


def _find(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    host, port = context.advertised
    node_id = context.rooms.identity.node_id
    message = "" if context.version >= _FIRST_WITH_KEYS else _NO_ERROR
    found = Coordinator("", node_id, host, port, error_message=message)
    return _respond(context, request, found)


def _refuse(
    context: RequestContext, request: FindCoordinatorRequest, error: KafkaError
) -> FindCoordinatorResponse:
    return _respond(context, request, Coordinator("", -1, "", -1, error.code, error.message))


def _respond(
    context: RequestContext, request: FindCoordinatorRequest, found: Coordinator
) -> FindCoordinatorResponse:
    """Answer with the same for every key, or for the one key that old versions have."""
    _, node_id, host, port, code, message = found
    if context.version >= _FIRST_WITH_KEYS:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key, node_id, host, port, code, message)
                for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(
        error_code=code, error_message=message, node_id=node_id, host=host, port=port
    )
