"""FindCoordinator (10), versions 0-6: one node coordinates everything.

v1 key types (KIP-98) · v4 several keys at once (KIP-699) · v5 retriable authorization errors · v6
share groups (KIP-932): a key names a group, a topic id and a partition. If a broker lacks
FindCoordinator, librdkafka assumes that it is older than 0.8.2, and never compresses with lz4.

Differs from Kafka: the first answer names a coordinator that can serve, where Kafka first answers
COORDINATOR_NOT_AVAILABLE.
"""

from collections.abc import Sequence
from typing import Any

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import (
    CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE,
    GROUP,
    TRANSACTIONAL_ID,
)
from siltstone.broker.services import RequestContext
from siltstone.broker.share.key import ShareKey
from siltstone.protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)
from siltstone.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

Refused = dict[int, Coordinator]

_GROUP, _TRANSACTION, _SHARE_GROUP = 0, 1, 2
_FIRST_WITH_KEYS = 4
_FIRST_WITH_SHARE_GROUPS = 6
_NO_ERROR = "NONE"
"""The message that Kafka sends to old versions when nothing is wrong; newer versions get none."""


async def find(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Name this broker for every key, by the address that the client can reach it at.

    The coordinator's topic is created first, so that the client need not ask again.
    """
    share = LoopShare()
    has_keys = context.version >= _FIRST_WITH_KEYS
    keys: Sequence[str] = request.coordinator_keys if has_keys else (request.key,)
    refused: Refused = {}
    is_of_queues = request.key_type == _SHARE_GROUP and context.version >= _FIRST_WITH_SHARE_GROUPS
    if context.rights is not None or is_of_queues:
        refused = await _find_refused(context, request.key_type, keys, share)
    if refused and len(refused) == len(keys):
        found = refused[0]
    elif request.key_type not in {_GROUP, _TRANSACTION} and not is_of_queues:
        kind = request.key_type
        found = _refusal(InvalidRequest(f"coordinators of type {kind} are not served"))
    else:
        services = context.services
        owner: Any = services.share_states if is_of_queues else services.groups
        journal = (services.transactions if request.key_type == _TRANSACTION else owner)().journal
        try:
            if not journal.is_created:
                await journal.ensure_created()
            found = _name_us(context)
        except KafkaError as failure:
            found = _refusal(failure)
    if not has_keys:
        _, node_id, host, port, code, message = refused.get(0, found)
        return FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=node_id, host=host, port=port
        )
    _, node_id, host, port, code, message = found
    coordinators: list[Any] = []
    for some in share.pieces(keys):
        coordinators += [(key, node_id, host, port, code, message) for key in some]
        await share.rest()
    for place, refusal in refused.items():
        coordinators[place] = Coordinator(keys[place], *refusal[1:])
        await share.rest()
    return FindCoordinatorResponse(coordinators=coordinators)


def _name_us(context: RequestContext) -> Coordinator:
    host, port = context.advertised
    message = "" if context.version >= _FIRST_WITH_KEYS else _NO_ERROR
    return Coordinator("", context.services.identity.node_id, host, port, error_message=message)


async def _find_refused(
    context: RequestContext, key_type: int, keys: Sequence[str], share: LoopShare
) -> Refused:
    """Return the refusals of keys that the client may not ask for, or that name no queue."""
    refused: Refused = {}
    has_share_groups = context.version >= _FIRST_WITH_SHARE_GROUPS
    for place, key in enumerate(keys):
        refusal: KafkaError | None = None
        if key_type == _GROUP and not context.may(DESCRIBE, GROUP, key):
            refusal = GroupAuthorizationFailed()
        if key_type == _TRANSACTION and not context.may(DESCRIBE, TRANSACTIONAL_ID, key):
            refusal = TransactionalIdAuthorizationFailed()
        if has_share_groups and key_type == _SHARE_GROUP:
            refusal = _find_fault(context, key)
        if refusal is not None:
            refused[place] = _refusal(refusal)
        await share.rest()
    return refused


def _find_fault(context: RequestContext, key: str) -> KafkaError | None:
    """Return why a key names no queue, or not for this client."""
    if not context.may(CLUSTER_ACTION, CLUSTER):
        return ClusterAuthorizationFailed()
    try:
        ShareKey.parse(key)
    except ValueError as error:
        return InvalidRequest(str(error))
    return None


def _refusal(error: KafkaError) -> Coordinator:
    return Coordinator("", -1, "", -1, error.code, error.message)
