"""Authorized operations as bit fields in answers: bit n stands for AclOperation n (KIP-430).

Without an authorizer the bit field names every operation that Kafka knows for the kind of resource.
The module also checks the rights to topics and to settings for several handlers, and has the fields
of an answer to a client that has no right to the cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.principals import ANONYMOUS
from siltstone.broker.security.rights import (
    CLUSTER,
    CLUSTER_OPERATIONS,
    GROUP,
    GROUP_OPERATIONS,
    TOPIC,
    TOPIC_OPERATIONS,
)
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.settings.resources import ResourceType
from siltstone.broker.topics.topic import Form
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError

Row = TypeVar("Row", bound="tuple[Any, ...]")

NOT_ASKED = -(2**31)
_OF_CLUSTER: Final = frozenset(
    {ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS}
)
_ANONYMOUS: Final = str(ANONYMOUS)


def _bits(operations: Sequence[int]) -> int:
    return sum(1 << operation for operation in operations)


_ALL_WITH_TOPIC: Final = _bits(TOPIC_OPERATIONS)
_ALL_WITH_GROUP: Final = _bits(GROUP_OPERATIONS)
_ALL_WITH_CLUSTER: Final = _bits(CLUSTER_OPERATIONS)

CLUSTER_REFUSED: Final[dict[str, Any]] = {
    "error_code": errors.ClusterAuthorizationFailed.code,
    "error_message": errors.ClusterAuthorizationFailed().message,
}
"""The error fields of an answer, or of a row, for a client that has no right to the cluster."""

OF_THE_CLIENT = -1
"""Stands for the operations of a client, which differ from topic to topic; see `form_for`."""


def of_topics(context: RequestContext) -> int:
    """Return the authorized operations for the topics in an answer."""
    return _ALL_WITH_TOPIC if context.rights is None else OF_THE_CLIENT


def of_cluster(context: RequestContext) -> int:
    """Return the authorized operations for the cluster in an answer."""
    return _ALL_WITH_CLUSTER if context.rights is None else context.rights.cluster_operations()


def find_refusal(
    context: RequestContext, operation: int, kind: int, name: str
) -> KafkaError | None:
    """Return why a client may not do something with the settings of a resource; None if it may.

    An unknown kind is refused elsewhere, so no rights are checked.
    """
    refusal: KafkaError | None = None
    if kind == ResourceType.TOPIC:
        if not context.may(operation, TOPIC, name):
            refusal = errors.TopicAuthorizationFailed()
    elif kind == ResourceType.GROUP:
        if not context.may(operation, GROUP, name):
            refusal = errors.GroupAuthorizationFailed()
    elif kind in _OF_CLUSTER and not context.may(operation, CLUSTER):
        refusal = errors.ClusterAuthorizationFailed()
    return refusal


def split_topics(
    context: RequestContext, operation: int, rows: Sequence[Row], *, by_id: bool
) -> tuple[Sequence[Row], dict[int, Row]]:
    """Return the rows with topics that a client has the right to, and the others by their places.

    A row begins with the name and the id of its topic. Rows with an id that no topic has are among
    the permitted rows: the handler answers that the id is unknown.
    """
    known = context.services.topics.by_id
    refused: dict[int, Row] = {}
    for place, row in enumerate(rows):
        name: str | None = row[0]
        if by_id:
            topic = known.get(row[1])
            name = None if topic is None else topic.name
        if name is not None and not context.may(operation, TOPIC, name):
            refused[place] = row
    if not refused:
        return rows, refused
    return [row for place, row in enumerate(rows) if place not in refused], refused


async def split_many(
    context: RequestContext, operation: int, rows: Sequence[Row], share: LoopShare, *, by_id: bool
) -> tuple[Sequence[Row], dict[int, Row]]:
    """Do the same as `split_topics` in pieces, and let others be served between the pieces."""
    allowed: list[Row] = []
    refused: dict[int, Row] = {}
    for piece in share.pieces(rows):
        start = len(allowed) + len(refused)
        some, others = split_topics(context, operation, piece, by_id=by_id)
        allowed += some
        refused |= {start + place: row for place, row in others.items()}
        await share.rest()
    return allowed, refused


def weave(answered: Sequence[Any], refused: Mapping[int, Any], count: int) -> Sequence[Any]:
    """Return answers and refusals in the order of the request, which has ``count`` rows.

    If the answers do not match the request row for row, the refusals come last.
    """
    if not refused:
        return answered
    if len(answered) + len(refused) != count:
        return [*answered, *refused.values()]
    served = iter(answered)
    return [refused[place] if place in refused else next(served) for place in range(count)]


def of_group(context: RequestContext, group_id: str) -> int:
    """Return the authorized operations for a group in an answer."""
    return _ALL_WITH_GROUP if context.rights is None else context.rights.group_operations(group_id)


def user_of(context: RequestContext) -> str:
    """Return the principal that has logged in; an empty text without a login."""
    client = context.connection
    return "" if client is None or client.principal == _ANONYMOUS else client.principal


def topics_seen(context: RequestContext) -> Callable[[str], bool] | None:
    """Return a test of whether the client may know a topic; None if it may know all of them."""
    return None if context.rights is None else context.rights.sees_topic


def form_for(context: RequestContext, form: Form, name: str) -> Form:
    """Return the version of a topic's cached answer, with the client's authorized operations."""
    rights = context.rights
    key, version, _ = form
    return key, version, _ALL_WITH_TOPIC if rights is None else rights.topic_operations(name)
