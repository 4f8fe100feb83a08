"""FindCoordinator (10), versions 0-6: one node coordinates everything.

v1 key types (KIP-98) · v4 several keys at once (KIP-699) · v5 retriable authorization errors ·
v6 share groups (KIP-932), which are not served. Without it librdkafka takes a broker for one of
before 0.8.2 and never compresses with lz4.

Differs from Kafka: the first answer names a coordinator that can serve, where Kafka first answers
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.security.rights import (
    CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE,
    GROUP,
    TRANSACTIONAL_ID,
)
from siltstone.protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)
from siltstone.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from siltstone.broker.context import RequestContext
    from siltstone.broker.coordination.journal import CoordinatorLog
    from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest

    Refused = dict[int, Coordinator]

_GROUP, _TRANSACTION, _SHARE_GROUP = 0, 1, 2
_FIRST_WITH_KEYS = 4
_FIRST_WITH_SHARE_GROUPS = 6
_NO_ERROR = "NONE"
"""The message of Kafka to old versions when nothing is wrong; to others it says nothing."""


def find(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    """Name this broker for every key, by the address that the client can reach it at.

    The coordinator's topic is made first, so that nobody has to ask again.
    """
    keys = _keys_of(context, request)
    refused = _find_refused(context, request.key_type, keys)
    if refused and len(refused) == len(keys):
        return _respond(context, keys, refused[0], refused)
    if request.key_type not in {_GROUP, _TRANSACTION}:
        error = InvalidRequest(f"coordinators of type {request.key_type} are not served")
        return _respond(context, keys, _refusal(error), refused)
    services = context.services
    is_group = request.key_type == _GROUP
    journal = services.groups().journal if is_group else services.transactions().journal
    if not journal.is_created:
        return _find_when_created(context, keys, refused, journal)
    return _find(context, keys, refused)


async def _find_when_created(
    context: RequestContext, keys: Sequence[str], refused: Refused, journal: CoordinatorLog
) -> FindCoordinatorResponse:
    try:
        await journal.ensure_created()
    except KafkaError as error:
        return _respond(context, keys, _refusal(error), refused)
    return _find(context, keys, refused)


def _keys_of(context: RequestContext, request: FindCoordinatorRequest) -> Sequence[str]:
    return request.coordinator_keys if context.version >= _FIRST_WITH_KEYS else (request.key,)


def _find_refused(context: RequestContext, key_type: int, keys: Sequence[str]) -> Refused:
    """Return the refusals of keys that the client may not ask for, by their places."""
    refused: Refused = {}
    if context.rights is None:
        return refused
    has_share_groups = context.version >= _FIRST_WITH_SHARE_GROUPS
    for place, key in enumerate(keys):
        refusal: KafkaError | None = None
        if key_type == _GROUP and not context.may(DESCRIBE, GROUP, key):
            refusal = GroupAuthorizationFailed()
        if key_type == _TRANSACTION and not context.may(DESCRIBE, TRANSACTIONAL_ID, key):
            refusal = TransactionalIdAuthorizationFailed()
        if has_share_groups and key_type == _SHARE_GROUP:
            refusal = None if context.may(CLUSTER_ACTION, CLUSTER) else ClusterAuthorizationFailed()
        if refusal is not None:
            refused[place] = _refusal(refusal)
    return refused


def _find(
    context: RequestContext, keys: Sequence[str], refused: Refused
) -> FindCoordinatorResponse:
    host, port = context.advertised
    node_id = context.services.identity.node_id
    message = "" if context.version >= _FIRST_WITH_KEYS else _NO_ERROR
    found = Coordinator("", node_id, host, port, error_message=message)
    return _respond(context, keys, found, refused)


def _refusal(error: KafkaError) -> Coordinator:
    return Coordinator("", -1, "", -1, error.code, error.message)


def _respond(
    context: RequestContext, keys: Sequence[str], found: Coordinator, refused: Refused
) -> FindCoordinatorResponse:
    """Answer with the same for every key that is not refused, or for the one of old versions."""
    if context.version >= _FIRST_WITH_KEYS:
        return FindCoordinatorResponse(
            coordinators=[
                refused.get(place, found)._replace(key=key) for place, key in enumerate(keys)
            ]
        )
    _, node_id, host, port, code, message = refused.get(0, found)
    return FindCoordinatorResponse(
        error_code=code, error_message=message, node_id=node_id, host=host, port=port
    )
