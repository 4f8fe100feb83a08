"""ConsumerGroupHeartbeat (68), versions 0-1: members join, stay in and leave a group (KIP-848).

v1 member ids that the client creates, and regular expressions. The API needs group.version 1 and
"consumer" among group.coordinator.rebalance.protocols.

Differs from Kafka: the hash of subscribed topics in the group's record is another one; a regular
expression has at most 10,000 characters, 20 Unicode classes and 10,000 counted repetitions. A
member is answered COORDINATOR_LOAD_IN_PROGRESS until there is room, if it would exceed
group.members.max.bytes, or if the members of its user would exceed half of that limit.
"""

from typing import TypeAlias, cast
from uuid import UUID

from siltstone.broker.groups.consumer.heartbeat import HeartbeatRequest, check_request
from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext, Services
from siltstone.protocol import errors
from siltstone.protocol.coordinator.consumer_group_records import OwnedPartitions
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.java import client_host
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
    TopicPartitions,
)
from siltstone.protocol.names import uuid_text
from siltstone.storage.randomness import random_uuid

Owned: TypeAlias = dict[UUID, frozenset[int]] | None

_FIRST_WITH_OWN_MEMBER_ID = 1


async def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Handle a heartbeat: admit, keep or remove a member, and answer with its assignment."""
    if not context.may(READ, GROUP, request.group_id):
        return _refuse(errors.GroupAuthorizationFailed())
    share = LoopShare()
    names = request.subscribed_topic_names
    if names is not None:
        if context.rights is not None:
            for name in names:
                if not context.may(DESCRIBE, TOPIC, name):
                    return _refuse(errors.TopicAuthorizationFailed())
                await share.rest()
        request = request._replace(subscribed_topic_names=await share.sort_once(names))
    owned = None
    if request.topic_partitions is not None:
        owned = await _merge(cast("list[TopicPartitions]", request.topic_partitions), share)
    services = context.services
    groups = services.groups()
    try:
        check_enabled(services)
        if not request.group_id.strip():
            raise errors.InvalidRequest("GroupId can't be empty.")
        values = _read(context, request, owned)
        groups.check(request.group_id)
        result = services.consumer_groups().heartbeat(request.group_id, values)
        journal = groups.journal
        if due := journal.find_unwritten_of(request.group_id):
            await share.wait_for(journal.flush(due))
    except KafkaError as error:
        return _refuse(error)
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _assignment(assigned: OwnedPartitions) -> Assignment:
    return Assignment(
        [
            ResponseTopicPartitions(topic_id.bytes, sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def check_enabled(services: Services) -> None:
    """Refuse the consumer protocol if it is switched off, without a message, as Kafka does.

    Raises:
        UnsupportedVersion: The protocol is off.
    """
    protocols = services.settings.server.group_coordinator_rebalance_protocols
    if "consumer" not in protocols or not services.features.level("group.version"):
        raise errors.UnsupportedVersion


def _read(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, owned: Owned
) -> HeartbeatRequest:
    """Convert a valid request to the coordinator's types."""
    brings_id = context.version >= _FIRST_WITH_OWN_MEMBER_ID
    names = request.subscribed_topic_names
    values = HeartbeatRequest(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=owned,
        sees=authorized.topics_seen(context),
        user=authorized.user_of(context),
    )
    assignors = context.services.settings.server.group_consumer_assignors
    check_request(values, assignors, needs_member_id=brings_id)
    return values if values.member_id else values.named(uuid_text(random_uuid()))


async def _merge(listed: list[TopicPartitions], share: LoopShare) -> dict[UUID, frozenset[int]]:
    """Return partitions by topic; rows of one topic are joined, rows without an id are left out.

    To save memory, the list is emptied on the way, and topics share equal sets.
    """
    merged: dict[bytes, list[int]] = {}
    while listed:
        topic_id, partitions = listed.pop()
        if topic_id != NO_ID:
            merged.setdefault(topic_id, []).extend(partitions)
        await share.rest()
    owned: dict[UUID, frozenset[int]] = {}
    shared: dict[frozenset[int], frozenset[int]] = {}
    while merged:
        topic_id, partitions = merged.popitem()
        indexes = frozenset(partitions)
        owned[UUID(bytes=topic_id)] = shared.setdefault(indexes, indexes)
        await share.rest()
    return owned


def _refuse(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    message = error.own_message
    if isinstance(error, (errors.GroupAuthorizationFailed, errors.TopicAuthorizationFailed)):
        message = error.message
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=message)
