"""Authorized operations as the bit fields of answers: bit n stands for AclOperation n (KIP-430).

Without an authorizer everybody may do everything that Kafka knows for such a resource. Here is too
how settings are asked for and how a refusal for want of a right to the cluster looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from siltstone.broker.security import operations
from siltstone.broker.security.principals import ANONYMOUS
from siltstone.broker.topics.settings.resources import ResourceType
from siltstone.protocol.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.topics.topic import Form

Row = TypeVar("Row", bound="tuple[Any, ...]")

NOT_ASKED = -(2**31)
_OF_CLUSTER: Final = frozenset(
    {ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS}
)
_ANONYMOUS: Final = str(ANONYMOUS)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC = _bits(3, 4, 5, 6, 7, 8, 10, 11)
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

GROUP = _bits(3, 6, 8, 10, 11)
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

CLUSTER = _bits(5, 7, 8, 9, 10, 11, 12)
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""

CLUSTER_REFUSED: Final[dict[str, Any]] = {
    "error_code": ClusterAuthorizationFailed.code,
    "error_message": ClusterAuthorizationFailed().message,
}
"""What an answer, or a part of one, says to a client that has no right to the cluster."""

OF_THE_CLIENT = -1
"""What the client may do with a topic, which differs from topic to topic; see `form_for`."""


def of_topics(context: RequestContext, *, asked: bool) -> int:
    """Return what an answer tells of operations with topics."""
    if not asked:
        return NOT_ASKED
    return TOPIC if context.rights is None else OF_THE_CLIENT


def of_cluster(context: RequestContext, *, asked: bool) -> int:
    """Return what an answer tells of operations with the cluster."""
    if not asked:
        return NOT_ASKED
    return CLUSTER if context.rights is None else context.rights.cluster_operations()


def find_refusal(
    context: RequestContext, operation: int, kind: int, name: str
) -> KafkaError | None:
    """Return why a client may not do something with the settings of a resource; None if it may.

    A kind that nobody knows is refused elsewhere, whoever asks.
    """
    refusal: KafkaError | None = None
    if kind == ResourceType.TOPIC:
        if not context.may(operation, operations.TOPIC, name):
            refusal = TopicAuthorizationFailed()
    elif kind == ResourceType.GROUP:
        if not context.may(operation, operations.GROUP, name):
            refusal = GroupAuthorizationFailed()
    elif kind in _OF_CLUSTER and not context.may(operation, operations.CLUSTER):
        refusal = ClusterAuthorizationFailed()
    return refusal


def split_topics(
    context: RequestContext, operation: int, rows: Sequence[Row], *, by_id: bool
) -> Generator[None, None, tuple[Sequence[Row], dict[int, Row]]]:
    """Return the rows with whose topics a client may do something, and the others by their places.

    It does so in steps. A row begins with the name and the id of its topic. An id that no topic has
    is in the first: its handler says that it is unknown.
    """
    known = context.rooms.topics.by_id
    refused: dict[int, Row] = {}
    for place, row in enumerate(rows):
        name: str | None = row[0]
        if by_id:
            topic = known.get(row[1])
            name = None if topic is None else topic.name
        if name is not None and not context.may(operation, operations.TOPIC, name):
            refused[place] = row
        yield
    if not refused:
        return rows, refused
    return [row for place, row in enumerate(rows) if place not in refused], refused


def weave(answered: Sequence[Any], refused: Mapping[int, Any], count: int) -> Sequence[Any]:
    """Return answers and refusals in the order of the request, which has ``count`` rows.

    Where the answers are not row for row those that were asked for, the refusals come last.
    """
    if not refused:
        return answered
    if len(answered) + len(refused) != count:
        return [*answered, *refused.values()]
    served = iter(answered)
    return [refused[place] if place in refused else next(served) for place in range(count)]


def of_group(context: RequestContext, group_id: str, *, asked: bool) -> int:
    """Return what an answer tells of operations with a group."""
    if not asked:
        return NOT_ASKED
    return GROUP if context.rights is None else context.rights.group_operations(group_id)


def user_of(context: RequestContext) -> str:
    """Return the principal that has logged in, an empty one if none has."""
    client = context.connection
    return "" if client is None or client.principal == _ANONYMOUS else client.principal


def topics_seen(context: RequestContext) -> Callable[[str], bool] | None:
    """Return what tells whether the client may be told of a topic; None if of all of them."""
    return None if context.rights is None else context.rights.sees_topic


def form_for(context: RequestContext, form: Form, name: str) -> Form:
    """Return the form of a topic's part of an answer, with what the client may do with it."""
    rights = context.rights
    key, version, _ = form
    return key, version, TOPIC if rights is None else rights.topic_operations(name)
