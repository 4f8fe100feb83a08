"""Limits the number and the rate of connections by client address (ConnectionQuotas)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.config.connection_limits import parse_overrides
from siltstone.config.server import ServerConfig

if TYPE_CHECKING:
    from siltstone.broker.security.quotas.meter import Meter
    from siltstone.broker.security.quotas.rates import TokenBucket

_NO_LIMIT: Final = (1 << 31) - 1
"""The largest INT, which is the default: no limit."""


class Addresses:
    """The client addresses of all connections, including those in a handshake (loop only).

    ``count_all`` returns the number of connections of all listeners, which max.connections limits;
    ``monotonic`` is a steady clock.
    """

    def __init__(
        self,
        settings: Callable[[], ServerConfig],
        meter: OnFirstUse[Meter],
        count_all: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._meter = meter
        self._count_all = count_all
        self._rate = ConnectionRate(
            settings, lambda: settings().max_connection_creation_rate, monotonic
        )
        self._counts: dict[str, int] = {}
        self._seen: ServerConfig | None = None  # the settings from which the limits were computed
        self._most = self._most_of_one = _NO_LIMIT
        self._overrides: dict[str, int] = {}

    def count(self, host: str) -> int:
        """Return how many open connections an address has."""
        return self._counts.get(host, 0)

    def opened(self, host: str) -> None:
        """Count a connection."""
        self._counts[host] = self._counts.get(host, 0) + 1

    def closed(self, host: str) -> None:
        """Count a closed connection; connections from within the process were never counted."""
        left = self._counts.get(host, 0) - 1
        if left > 0:
            self._counts[host] = left
        else:
            self._counts.pop(host, None)

    def find_fault(self, host: str) -> str | None:
        """Return the setting that forbids another connection of an address, or None."""
        settings = self._settings()
        if settings is not self._seen:  # each change creates a new object
            self._seen = settings
            self._most = settings.max_connections
            self._most_of_one = settings.max_connections_per_ip
            self._overrides = parse_overrides(settings.max_connections_per_ip_overrides)
        if self._most != _NO_LIMIT and self._count_all() >= self._most:
            return Limit.CONNECTIONS
        limit = self._most_of_one
        if self._overrides:
            limit = self._overrides.get(_without_zone(host), limit)
        return Limit.CONNECTIONS_PER_ADDRESS if self._counts.get(host, 0) >= limit else None

    def find_pause(self) -> float:
        """Count a connection; return after how many seconds the next one may be accepted."""
        return self._rate.find_pause()

    def find_delay(self, host: str) -> float:
        """Return for how many seconds to hold a connection that comes too soon; 0 if it may come.

        After this time it is closed: the client must connect less often.
        """
        meter = self._meter.built
        return 0.0 if meter is None else meter.admit(_without_zone(host))


class ConnectionRate:
    """The rate of new connections, of all listeners or of one (loop only).

    ``limit`` returns how many connections may come in a second; None and `_NO_LIMIT` mean no limit.
    ``monotonic`` is a steady clock.
    """

    def __init__(
        self,
        settings: Callable[[], ServerConfig],
        limit: Callable[[], int | None],
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._limit = limit
        self._monotonic = monotonic
        self._bucket: TokenBucket | None = None

    def find_pause(self) -> float:
        """Count a connection; return after how many seconds the next one may be accepted."""
        limit = self._limit()
        if limit is None or limit == _NO_LIMIT:
            return 0.0
        now = self._monotonic()
        bucket = self._bucket
        if bucket is None:
            bucket = self._bucket = self._make_bucket(limit, now)
        bucket.set_limit(limit, now)
        bucket.take(1, now)
        return bucket.find_delay(now)

    def _make_bucket(self, limit: float, now: float) -> TokenBucket:
        from siltstone.broker.security.quotas.rates import TokenBucket, Windows  # noqa: PLC0415

        server = self._settings()
        windows = Windows(server.quota_window_num, server.quota_window_size_seconds)
        return TokenBucket(windows.credit, limit, now)


def _without_zone(host: str) -> str:
    return host.partition("%")[0]
