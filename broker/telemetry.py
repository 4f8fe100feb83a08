"""Metrics that clients push (KIP-714): which metrics clients push, and their last values.

(Kafka: ``ClientMetricsManager``, which hands metrics to a plug-in; here they become series of the
metrics page.) Subscriptions are dynamic settings; without a subscription clients push nothing.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID
from zlib import crc32

from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.broker.process.client_limits import MAX_TEXT
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.config.client_metrics import (
    CLIENT_METRICS,
    EXPRESSION,
    INTERVAL_MS,
    MATCHED,
    read_client_metrics,
)
from siltstone.config.errors import ConfigError
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.names import uuid_text
from siltstone.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from siltstone.storage.clock import Clock
from siltstone.storage.randomness import random_uuid

if TYPE_CHECKING:
    from siltstone.protocol.otlp import Point

_logger = logging.getLogger(__name__)

ACCEPTED: Final = (ZSTD, LZ4, GZIP, SNAPPY)
"""The codecs of pushed metrics; metrics may also be uncompressed."""
_ALL: Final = "*"
_MAX_INSTANCES: Final = 10_000
_DEFAULT_INTERVAL_MS: Final = 300_000
# A push may come half an interval late, and one may be lost.
_INTERVALS_KEPT: Final = 3
_SIGN: Final = 1 << 31
_MAX_EXPRESSION: Final = 1_000
_MAX_CLASSES: Final = 2
_MAX_BYTES: Final = 64 << 20
"""How many bytes the points of all clients together may have in memory."""
_CLEARED_EVERY_MS: Final = 1000.0
"""How often silent clients are removed to make room, if all room is used."""


class Client(NamedTuple):
    """The fields by which subscriptions choose clients, in the order of `MATCHED`."""

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str


class Subscription(NamedTuple):
    """The prefixes of the metrics that one client pushes; an empty prefix means all metrics."""

    id: int
    prefixes: tuple[str, ...]
    interval_ms: int


@dataclass(slots=True)
class Instance:
    """One client while it is known; times are monotonic milliseconds."""

    id: bytes
    client: Client
    subscription: Subscription
    made_from: Mapping[str, Mapping[str, str]]
    asked_ms: float = float("-inf")
    pushed_ms: float = float("-inf")
    last_error: int = 0
    is_terminating: bool = False
    points: Sequence[Point] = field(default_factory=tuple)
    size: int = 0  # the bytes of the points
    omitted: int = 0  # points that were not kept, since there were too many


class Room(NamedTuple):
    """The room that is left: a number of points, and the bytes that they may have in memory."""

    points: int
    size: int


class Pushed(NamedTuple):
    """The kept part of one push: the points, their bytes, and how many were left out."""

    points: Sequence[Point]
    size: int
    omitted: int


_NOTHING: Final = Pushed((), 0, 0)


class _Chosen(NamedTuple):
    prefixes: tuple[str, ...]
    interval_ms: int
    expressions: tuple[tuple[int, Any], ...]  # an index in `Client`, the match


class Telemetry:
    """The clients that asked what to push, the latest last (loop only).

    At most 10,000 clients are known; above that the client that was silent longest is forgotten,
    and must subscribe again. All clients together may have as many points as the metrics page shows
    at most, and 64 MiB.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        self._made_from: Mapping[str, Mapping[str, str]] = {}
        self._chosen: list[_Chosen] = []
        self._count = 0  # of points
        self._size = 0  # the bytes of these points
        self._cleared_ms = float("-inf")

    @property
    def max_bytes(self) -> int:
        """Return how many bytes a client may push in one request."""
        return self._settings.server.telemetry_max_bytes

    def subscribe(self, instance_id: bytes, client: Client) -> Instance:
        """Return a client's instance, with a new id if it has none yet.

        Raises:
            ThrottlingQuotaExceeded: The client asks again before its interval is over.
        """
        if instance_id == NO_ID:
            instance_id = random_uuid().bytes
        instance = self._find(instance_id, client)
        now = self._now()
        is_early = now - max(instance.asked_ms, instance.pushed_ms) < (
            instance.subscription.interval_ms
        )
        if is_early and not instance.last_error:
            raise errors.ThrottlingQuotaExceeded(
                "subscriptions are asked for once in a push interval"
            )
        instance.asked_ms = now
        instance.last_error = 0
        return instance

    def admit(
        self, instance_id: bytes, client: Client, subscription_id: int, codec: int, size: int
    ) -> Instance:
        """Return the instance that pushes, if the push is allowed.

        Raises:
            KafkaError: The push is refused; the client asks for its subscription again.
        """
        if instance_id == NO_ID:
            raise errors.InvalidRequest("a client pushes with the instance id that it was given")
        instance = self._find(instance_id, client)
        if instance.is_terminating:
            raise errors.InvalidRequest("a client pushes nothing after it said that it ends")
        now = self._now()
        is_first = instance.asked_ms > instance.pushed_ms
        if not is_first and now - instance.pushed_ms < instance.subscription.interval_ms:
            raise errors.ThrottlingQuotaExceeded("metrics are pushed once in a push interval")
        instance.pushed_ms = now
        if subscription_id != instance.subscription.id:
            instance.last_error = ErrorCode.unknown_subscription_id
            raise errors.UnknownSubscriptionId("what is asked for has changed; ask for it again")
        if codec != NONE and codec not in ACCEPTED:
            instance.last_error = ErrorCode.unsupported_compression_type
            raise errors.UnsupportedCompressionType(f"there is no compression type {codec}")
        if size > self.max_bytes:
            raise errors.TelemetryTooLarge(f"{size} bytes are more than telemetry.max.bytes")
        return instance

    def find_room(self, instance: Instance) -> Room:
        """Return how many points and bytes of an instance may be kept now."""
        limit, now = self._settings.server.metrics_max_client_series, self._now()
        is_full = self._count >= limit or self._size >= _MAX_BYTES
        if is_full and now >= self._cleared_ms + _CLEARED_EVERY_MS:
            self._cleared_ms = now
            for _ in self.alive():
                continue
        return Room(
            max(0, limit - self._count + len(instance.points)),
            max(0, _MAX_BYTES - self._size + instance.size),
        )

    def keep(self, instance: Instance, pushed: Pushed) -> None:
        """Replace the kept points of an instance by those of its last push, if there is room.

        If other clients have used up the room since `find_room`, no points are kept.
        """
        prefixes = instance.subscription.prefixes
        wanted = [each for each in pushed.points if each.name.startswith(prefixes)]
        room = self.find_room(instance)
        if len(wanted) > room.points or pushed.size > room.size:
            pushed = Pushed((), 0, pushed.omitted + len(wanted))
        else:
            pushed = pushed._replace(points=wanted)
        if self._instances.get(instance.id) is instance:  # not forgotten meanwhile
            self._put(instance, pushed)

    def end(self, instance: Instance) -> None:
        """Forget the metrics of a client that terminates; it may not push again."""
        instance.is_terminating = True
        self._put(instance, _NOTHING)

    def alive(self) -> Iterator[Instance]:
        """Yield the clients that have pushed lately, and forget the metrics of others."""
        now = self._now()
        for instance in tuple(self._instances.values()):
            if not instance.points and not instance.omitted:
                continue
            if now - instance.pushed_ms > _INTERVALS_KEPT * instance.subscription.interval_ms:
                self._put(instance, _NOTHING)
            else:
                yield instance

    def _find(self, instance_id: bytes, client: Client) -> Instance:
        current = self._settings.client_metrics
        client = client._replace(instance_id=uuid_text(UUID(bytes=instance_id)))
        instance = self._instances.get(instance_id)
        if instance is None or instance.made_from is not current:
            subscription = self._choose(instance_id, client)
            if instance is None:
                known = Client._make(text[:MAX_TEXT] for text in client)
                instance = Instance(instance_id, known, subscription, current)
                self._instances[instance_id] = instance
                if len(self._instances) > _MAX_INSTANCES:
                    _, forgotten = self._instances.popitem(last=False)
                    self._put(forgotten, _NOTHING)
            else:
                if instance.subscription != subscription:
                    instance.asked_ms = float("-inf")  # it may ask again at once
                instance.subscription = subscription
                instance.made_from = current
        self._instances.move_to_end(instance_id)
        return instance

    def _put(self, instance: Instance, pushed: Pushed) -> None:
        self._count += len(pushed.points) - len(instance.points)
        self._size += pushed.size - instance.size
        instance.points, instance.size, instance.omitted = pushed

    def _choose(self, instance_id: bytes, client: Client) -> Subscription:
        """Return the prefixes of all subscriptions to a client, with the shortest interval."""
        current = self._settings.client_metrics
        if self._made_from is not current:
            self._chosen = [_read(own) for own in current.values()]
            self._made_from = current
        prefixes: set[str] = set()
        intervals = []
        for each in self._chosen:
            if all(found.fullmatch(client[place]) for place, found in each.expressions):
                prefixes.update(each.prefixes)
                intervals.append(each.interval_ms)
        told = ("",) if _ALL in prefixes else tuple(sorted(prefixes))
        interval_ms = min(intervals, default=_DEFAULT_INTERVAL_MS)
        identity = crc32(repr((told, interval_ms, instance_id)).encode())
        return Subscription((identity ^ _SIGN) - _SIGN, told, interval_ms)

    def _now(self) -> float:
        return self._clock.monotonic() * 1000


def check_subscription(own: Mapping[str, str]) -> None:
    """Check all settings of a subscription together, with Kafka's codes.

    Raises:
        InvalidRequest: A name is unknown, or the interval is out of bounds.
        InvalidConfig: A value has the wrong type, or an expression that chooses clients is faulty.
    """
    refusal = errors.InvalidConfig if own.keys() <= CLIENT_METRICS.keys() else errors.InvalidRequest
    try:
        _read(own)
        config = read_client_metrics(own)
    except (ConfigError, errors.InvalidRegularExpression) as error:
        raise refusal(str(error)) from error
    for name, text in config.expressions.items():
        if not EXPRESSION.holds(text):
            fault = f"{name} in match is {text or 'empty'}; it must be {EXPRESSION.words}"
            raise errors.InvalidConfig(fault)
    if not INTERVAL_MS.holds(config.interval_ms):
        raise errors.InvalidRequest(
            f"interval.ms is {config.interval_ms}; it must be {INTERVAL_MS.words}"
        )


@lru_cache(maxsize=1024)
def _compile(text: str) -> Any:
    """Return an expression, compiled once however often subscriptions change.

    Raises:
        InvalidRegularExpression: RE2 refuses it, or it is too large: all are compiled in one turn.
    """
    if len(text) > _MAX_EXPRESSION:
        raise errors.InvalidRegularExpression(
            f"{len(text)} characters are too many, {_MAX_EXPRESSION} may be"
        )
    return compile_expression(text, _MAX_CLASSES)


def _read(own: Mapping[str, str]) -> _Chosen:
    config = read_client_metrics(own)
    expressions = tuple(
        (MATCHED.index(name), _compile(text)) for name, text in config.expressions.items()
    )
    return _Chosen(config.metrics, config.interval_ms, expressions)
