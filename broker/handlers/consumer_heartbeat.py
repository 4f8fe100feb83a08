"""ConsumerGroupHeartbeat (68), versions 0-1: how members of a consumer group live (KIP-848).

v1 member ids of the client's making and regular expressions. It takes the frame itself, as
Heartbeat does, since each member sends one every few seconds. It needs group.version 1 and
"consumer" among group.coordinator.rebalance.protocols.

Differs from Kafka: the hash of subscribed topics in the group's record is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from broker.groups.client_host import client_host
from broker.groups.consumer_group_heartbeat import HeartbeatRequest, check_request
from protocol.consumer_heartbeat import API_KEY, encode, encode_error, parse
from protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from protocol.names import uuid_text

if TYPE_CHECKING:
    from broker.connection import Connection
    from broker.context import Rooms
    from protocol.consumer_heartbeat import ConsumerHeartbeat

_FIRST_WITH_OWN_MEMBER_ID = 1


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> bytes:
    """Keep a member alive, take it in or let it go, and tell it what it is to read."""
    request = parse(version, buffer, position, end)
    groups = connection.rooms.groups
    try:
        check_enabled(connection.rooms)
        if not request.group_id.strip():
            raise InvalidRequest("GroupId can't be empty.")
        values = _read(connection, version, request)
        groups.check(request.group_id)
        result = groups.consumer.heartbeat(request.group_id, values)
    except KafkaError as error:
        return _refuse(connection, correlation_id, error)
    return encode(correlation_id, *result)


def check_enabled(rooms: Rooms) -> None:
    """Refuse the protocol where it is switched off, without a word as Kafka does.

    Raises:
        UnsupportedVersion: So it is.
    """
    protocols = rooms.settings.server.group_coordinator_rebalance_protocols
    if "consumer" not in protocols or not rooms.features.level("group.version"):
        raise UnsupportedVersion


def _read(connection: Connection, version: int, request: ConsumerHeartbeat) -> HeartbeatRequest:
    """Return what the request says, if it may say so.

    Raises:
        InvalidRequest: It contradicts itself.
        UnsupportedAssignor: It wants an assignor that is not there.
    """
    brings_id = version >= _FIRST_WITH_OWN_MEMBER_ID
    names = request.subscribed_topic_names
    values = HeartbeatRequest(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=connection.client_id or "",
        client_host=client_host(connection.peer),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=request.owned,
    )
    assignors = connection.rooms.settings.server.group_consumer_assignors
    check_request(values, assignors, needs_member_id=brings_id)
    return values if values.member_id else values.named(uuid_text(uuid4()))


def _refuse(connection: Connection, correlation_id: int, error: KafkaError) -> bytes:
    code = error.code.value
    connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
    return encode_error(correlation_id, code, error.own_message)
