"""GetTelemetrySubscriptions (71) and PushTelemetry (72), version 0 (KIP-714).

Differs from Kafka: what clients push becomes series of the metrics page, so clients are asked for
totals and not for differences (delta temporality is false); ApiVersions names both APIs only while
there is a subscription, where Kafka names them while it has a plug-in.
"""

from collections.abc import Coroutine
from itertools import chain

from siltstone.broker.groups.member_bytes import bytes_of
from siltstone.broker.services import RequestContext
from siltstone.broker.telemetry import ACCEPTED, Client, Instance, Pushed, Room
from siltstone.protocol.errors import InvalidRecord, KafkaError
from siltstone.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from siltstone.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from siltstone.protocol.otlp import Point, read_points
from siltstone.protocol.records.compression import decompress

_POINT_BYTES = 200
_MAX_UNFOLDED = 4
"""The most that compressed metrics may unfold to, as a multiple of telemetry.max.bytes."""


def subscribe(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Tell a client what to push, and how often."""
    telemetry = context.services.telemetry.get()
    try:
        instance = telemetry.subscribe(request.client_instance_id, _client(context))
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    subscription = instance.subscription
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=subscription.id,
        accepted_compression_types=ACCEPTED,
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=False,
        requested_metrics=subscription.prefixes,
    )


def push(
    context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse | Coroutine[None, None, PushTelemetryResponse]:
    """Accept what a client pushes; a thread decodes it."""
    telemetry = context.services.telemetry.get()
    given, metrics = request.client_instance_id, request.metrics
    try:
        instance = telemetry.admit(
            given, _client(context), request.subscription_id, request.compression_type, len(metrics)
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    if request.terminating:
        telemetry.end(instance)
        return PushTelemetryResponse()
    if not instance.subscription.prefixes:  # no subscription asks this client for metrics
        return PushTelemetryResponse()
    return _take(context, instance, request.compression_type, bytes(metrics))


async def _take(
    context: RequestContext, instance: Instance, codec: int, metrics: bytes
) -> PushTelemetryResponse:
    telemetry = context.services.telemetry.get()
    cap = telemetry.max_bytes * _MAX_UNFOLDED
    try:
        room = telemetry.find_room(instance)
        prefixes = instance.subscription.prefixes
        read = context.services.io.unpack(_read, codec, metrics, cap, prefixes, room)
        pushed = await read
    except KafkaError:
        return PushTelemetryResponse(error_code=InvalidRecord.code)
    telemetry.keep(instance, pushed)
    return PushTelemetryResponse()


def _read(codec: int, metrics: bytes, cap: int, prefixes: tuple[str, ...], room: Room) -> Pushed:
    """Return the requested points, as many as there is room for."""
    points: list[Point] = []
    size = omitted = 0
    for each in read_points(decompress(codec, metrics, cap)):
        if not each.name.startswith(prefixes):
            continue
        more = _POINT_BYTES + bytes_of((each.name, *chain.from_iterable(each.labels)))
        if omitted or len(points) == room.points or size + more > room.size:
            omitted += 1
        else:
            points.append(each)
            size += more
    return Pushed(points, size, omitted)


def _client(context: RequestContext) -> Client:
    address, _, port = context.peer.rpartition(":")
    connection = context.connection
    name, version = ("", "") if connection is None else connection.software
    return Client("", context.client_id or "", name, version, address, port)
