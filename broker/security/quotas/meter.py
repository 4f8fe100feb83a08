"""Counts requests while there are quotas, and slows down clients above their quota (KIP-219).

A request is always served, whatever it costs. The answer leaves at once and says how long the
client should wait. The broker does not read the client's connection before that time is over.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from siltstone.broker.api import Api
from siltstone.broker.context import RequestContext, Unwritten
from siltstone.broker.security.principals import OURSELVES
from siltstone.broker.security.quotas.book import (
    CONNECTION,
    CONSUMER,
    MUTATION,
    PRODUCER,
    REQUEST,
    Quotas,
)
from siltstone.broker.security.quotas.rates import Mutations, TokenBucket, Windows
from siltstone.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from siltstone.protocol.messages.produce import ProduceRequest
from siltstone.storage.clock import Clock, perf_counter

_OURSELVES: Final = str(OURSELVES)
_PRODUCE: Final = 0
_FETCH: Final = 1
STRICT_SINCE: Final = {19: 6, 20: 5, 37: 3}
"""From which version on clients know THROTTLING_QUOTA_EXCEEDED, of the APIs that mutate."""

_BEFORE_LOGIN: Final = frozenset({17, 18, 36})
"""The APIs that may come before a client is known; of such a client nothing is counted."""

COUNTED: Final = (PRODUCER, CONSUMER, REQUEST, MUTATION, CONNECTION)
"""The quotas that requests and connections are held against."""

_TOPIC_BYTES: Final = 8
_PARTITION_BYTES: Final = 8
_FETCHED_PARTITION_BYTES: Final = 40
_RESPONSES: Final = FetchResponse._fields.index("responses")
_RECORDS: Final = PartitionData._fields.index("records")
_PERCENT: Final = 100
_MIN_SWEEP: Final = 1_000
_MAX_FOUND: Final = 10_000
_MAX_KNOWN: Final = 100_000
_LONGEST_KEPT: Final = 100  # characters of a client id, which may have 32,767 bytes
_THROTTLE_TIME: Final = "throttle_time_ms"
_MAX_DELAY: Final = ((1 << 31) - 1) / 1000  # the longest delay that an answer can state


class Client(Protocol):
    """The connection of a request."""

    principal: str

    @property
    def client_id(self) -> str | None:
        """Return the client's id; None if the client did not send one."""

    @property
    def is_known(self) -> bool:
        """Return whether the client has logged in, or need not log in."""

    def throttle(self, seconds: float) -> None:
        """Read nothing for so many seconds after the answer to the current request."""


class Meter:
    """Counts how much each client has recently asked for (loop only).

    By kind of quota, ``throttled`` counts the answers that told a client to wait and the
    connections that were delayed; ``seconds`` counts how long they had to wait.
    """

    def __init__(
        self,
        quotas: Quotas,
        clock: Clock,
        windows: Windows,
        mutation_windows: Windows,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self.timer = timer
        self.monotonic = clock.monotonic
        self.throttled = dict.fromkeys(COUNTED, 0)
        self.seconds = dict.fromkeys(COUNTED, 0.0)
        self._quotas = quotas
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}
        self._sweep_above = _MIN_SWEEP
        self._found: dict[tuple[str, str, str], TokenBucket | None] = {}
        self._version = quotas.version
        self._handled = 0.0  # seconds of this turn that are counted already

    @property
    def known_count(self) -> int:
        """How many clients or groups of clients are remembered."""
        return len(self._buckets)

    def find_handler(self, api: Api) -> Callable[..., Any] | None:
        """Return the metered handler of an API; None if no quota concerns the API."""
        own = {_PRODUCE: PRODUCER, _FETCH: CONSUMER, **dict.fromkeys(STRICT_SINCE, MUTATION)}
        keys = self._quotas.keys & {REQUEST, own.get(api.key, REQUEST)}
        return _Metered(self, api, is_timed=REQUEST in keys, key=own.get(api.key)) if keys else None

    def find_timer(self) -> Meter | None:
        """Return the counter of the time that turns take; None if no quota concerns that time."""
        return self if REQUEST in self._quotas.keys else None

    def begin(self) -> tuple[float, float]:
        """Begin a turn of a connection, perhaps inside another turn; return the value for `end`."""
        handled, self._handled = self._handled, 0.0
        return self.timer(), handled

    def end(self, connection: Client, began: tuple[float, float]) -> None:
        """Count the time of a turn outside of handlers: receiving, decoding, encoding, sending.

        This delays only the client's next request. The time of a turn inside this one counts for
        that turn's connection.
        """
        began_at, handled = began
        seconds = self.timer() - began_at
        rest = seconds - self._handled
        self._handled = handled + seconds
        if connection.principal != _OURSELVES and connection.is_known:
            user, client_id = _user_of(connection), connection.client_id or ""
            self.charge(REQUEST, user, client_id, rest * _PERCENT)

    def note_handled(self, seconds: float) -> None:
        """Note the time of a handler, which is counted with its request."""
        self._handled += seconds

    def charge(self, key: str, user: str, client_id: str, count: float) -> float:
        """Count what a client has used; return how many seconds the client has to wait."""
        bucket = self.find_bucket(key, user, client_id)
        if bucket is None:
            return 0.0
        now = self.monotonic()
        bucket.take(count, now)
        return bucket.find_delay(now)

    def admit(self, host: str) -> float:
        """Count a connection of an address; return how many seconds it waits if it is one too many.

        The wait is one window at most, as in Kafka; a connection that has to wait is not counted.
        """
        limit = self._quotas.find_connection_rate(host)
        if limit is None:
            return 0.0
        now = self.monotonic()
        self.look_for_change()
        bucket = self._find_bucket((CONNECTION, host, ""), limit, now)
        bucket.take(1, now)
        delay = min(bucket.find_delay(now), self._windows.seconds)
        if delay:
            bucket.take(-1, now)
            self.note(CONNECTION, delay)
        return delay

    def find_bucket(self, key: str, user: str, client_id: str) -> TokenBucket | None:
        """Return the bucket that a client shares with others; None if there is no limit."""
        self.look_for_change()
        kept = _shorten(client_id)
        asked = key, user, kept
        if asked in self._found:
            return self._found[asked]
        share = self._quotas.find(key, user, client_id)
        bucket = None
        if share is not None:
            name = key, share.user, share.client_id and kept
            bucket = self._find_bucket(name, share.limit, self.monotonic())
        if len(self._found) >= _MAX_FOUND:
            self._found.clear()
        self._found[asked] = bucket
        return bucket

    def find_wait(self, client: Client) -> float:
        """Return the longest time in seconds that a client has to wait under the present quotas."""
        now = self.monotonic()
        who = _user_of(client), client.client_id or ""
        buckets = [self.find_bucket(key, *who) for key in (PRODUCER, CONSUMER, REQUEST, MUTATION)]
        return max(0.0 if each is None else each.find_delay(now) for each in buckets)

    def find_credit(self, key: str, user: str, client_id: str) -> float | None:
        """Return how much a silent client may ask for at once; None if there is no limit."""
        share = self._quotas.find(key, user, client_id)
        return None if share is None else share.limit * self._windows.credit

    def note(self, key: str, seconds: float) -> None:
        """Count an answer that told a client to wait."""
        self.throttled[key] += 1
        self.seconds[key] += seconds

    def _find_bucket(self, name: tuple[str, str, str], limit: float, now: float) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= self._sweep_above:
                self._sweep(now)
            bucket = self._buckets[name] = self._make_bucket(name[0], limit, now)
        bucket.set_limit(limit, now)
        return bucket

    def _make_bucket(self, key: str, limit: float, now: float) -> TokenBucket:
        if key == MUTATION:
            return TokenBucket(self._mutation_windows.memory, limit, now)
        max_delay = self._windows.memory if key == REQUEST else math.inf
        return TokenBucket(self._windows.credit, limit, now, max_delay=max_delay)

    def look_for_change(self) -> None:
        """After a change, forget names without a quota: a later quota begins with nothing used."""
        if self._version == self._quotas.version:
            return
        self._version = self._quotas.version
        self._found.clear()
        self._buckets = {
            name: bucket for name, bucket in self._buckets.items() if self._is_limited(*name)
        }

    def _is_limited(self, key: str, user: str, client_id: str) -> bool:
        """Tell whether there is a quota for the names that share a bucket."""
        if key == CONNECTION:
            return self._quotas.find_connection_rate(user) is not None
        share = self._quotas.find(key, user, client_id)
        return share is not None and (share.user, share.client_id) == (user, client_id)

    def _sweep(self, now: float) -> None:
        """Forget names that have been silent; they may ask for as much as new names.

        If too many are left, for example because a client invents names, the oldest of the names
        that clients choose themselves are forgotten as well.
        """
        kept = [each for each in self._buckets.items() if not each[1].is_full(now)]
        kept.sort(key=lambda each: not each[0][2])
        self._buckets = dict(kept[-_MAX_KNOWN // 2 :])
        self._found.clear()  # its entries lead to forgotten buckets, too
        self._sweep_above = min(max(_MIN_SWEEP, 2 * len(self._buckets)), _MAX_KNOWN)


class _Metered:
    """The handler of an API, whose requests are counted; the first request loads it."""

    def __init__(self, meter: Meter, api: Api, *, is_timed: bool, key: str | None) -> None:
        self._meter = meter
        self._api = api
        self._is_timed = is_timed
        self._key = key
        self._may_come_first = api.key in _BEFORE_LOGIN
        self._loaded: Callable[..., Any] | None = None
        self._row: Any = None

    def __call__(self, context: RequestContext[Any], request: Any) -> Any:
        """Serve a request."""
        connection = cast("Client | None", context.connection)
        if connection is None or connection.principal == _OURSELVES:
            return self._handle(context, request)
        if self._may_come_first and not connection.is_known:
            return self._handle(context, request)
        user = _user_of(connection)
        client_id = context.client_id or ""
        metered = _Request(self._meter, connection, user, client_id)
        is_timed = self._is_timed
        if self._key == PRODUCER:
            metered.bytes = count_produced(request)
            is_timed = is_timed and request.acks != 0
        elif self._key == CONSUMER:
            request = _fit(request, self._meter.find_credit(CONSUMER, user, client_id))
        elif self._key == MUTATION:
            bucket = self._meter.find_bucket(MUTATION, user, client_id)
            if bucket is not None:
                is_strict = context.version >= STRICT_SINCE[self._api.key]
                metered.mutations = Mutations(bucket, self._meter.monotonic, is_strict=is_strict)
                context.mutations = metered.mutations
        began = self._meter.timer()
        answer = self._handle(context, request)
        metered.seconds = self._meter.timer() - began
        if is_timed:
            self._meter.note_handled(metered.seconds)
        if answer is None or isinstance(answer, (tuple, Unwritten)):
            delay = self._judge(metered, answer, is_timed=is_timed)
            return self._tell(connection, answer, delay) if delay else answer
        return self._finish(metered, answer, is_timed=is_timed)

    def _handle(self, context: RequestContext[Any], request: Any) -> Any:
        handler = self._loaded
        if handler is None:
            handler = self._loaded = self._api.load()
            self._row = self._api.load_messages()[1].struct
        return handler(context, request)

    async def _finish(
        self, metered: _Request, later: Coroutine[Any, Any, Any], *, is_timed: bool
    ) -> Any:
        note_first = self._meter.note_handled if is_timed else None
        timed = Timed(later, self._meter.timer, note_first)
        answer = await timed
        metered.seconds += timed.seconds
        delay = self._judge(metered, answer, is_timed=is_timed)
        return await self._tell(metered.connection, answer, delay) if delay else answer

    def _judge(self, metered: _Request, answer: Any, *, is_timed: bool) -> float:
        """Count the cost of a request; return how many seconds its client has to wait."""
        delays: dict[str, float] = {}
        if self._key == PRODUCER:
            delays[PRODUCER] = metered.charge(PRODUCER, metered.bytes)
        elif self._key == CONSUMER:
            delays[CONSUMER] = metered.charge(CONSUMER, count_fetched(answer))
        elif metered.mutations is not None:
            delays[MUTATION] = metered.mutations.delay
        if is_timed:
            delays[REQUEST] = metered.charge(REQUEST, metered.seconds * _PERCENT)
        if not any(delays.values()):
            return 0.0
        key = max(delays, key=lambda each: delays[each])
        delay = math.ceil(min(delays[key], _MAX_DELAY) * 1000) / 1000
        self._meter.note(key, delay)
        return delay

    async def _tell(self, connection: Client, answer: Any, delay: float) -> Any:
        """Return the answer with the time to wait in it, and delay the connection."""
        connection.throttle(delay)
        await _come_later()
        if isinstance(answer, Unwritten):  # in a later turn the batches are written
            answer = answer.answer()
        if answer is None or _THROTTLE_TIME not in self._row._fields:
            return answer
        return self._row(*answer)._replace(**{_THROTTLE_TIME: round(delay * 1000)})


@types.coroutine
def _come_later() -> Generator[None, None, None]:
    """Wait for the loop's next turn: only a request that is answered later may be delayed."""
    yield


@dataclass(slots=True)
class _Request:
    """One request while it is served, and its client."""

    meter: Meter
    connection: Client
    user: str
    client_id: str
    bytes: int = 0
    seconds: float = 0.0
    mutations: Mutations | None = None

    def charge(self, key: str, count: float) -> float:
        """Count what the request used; return how many seconds the client has to wait."""
        return self.meter.charge(key, self.user, self.client_id, count)


class Timed:
    """A coroutine whose steps on the loop are timed; its waiting is not.

    ``note_first`` gets the time of the first step, which is made in the turn of a connection.
    """

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        timer: Callable[[], float],
        note_first: Callable[[float], None] | None = None,
    ) -> None:
        self.seconds = 0.0
        self._note_first = note_first
        self._coroutine = coroutine
        self._timer = timer

    def __await__(self) -> Generator[Any, Any, Any]:
        """Pass on the futures that the coroutine waits for."""
        error: BaseException | None = None
        while True:
            began = self._timer()
            try:
                if error is None:
                    waited = self._coroutine.send(None)
                else:
                    waited = self._coroutine.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self.seconds += self._timer() - began
                if self._note_first is not None:
                    self._note_first(self.seconds)
                    self._note_first = None
            error = None
            try:
                yield waited
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as raised:  # noqa: BLE001  # it is the coroutine's, as in await
                error = raised


def _user_of(client: Client) -> str:
    return client.principal.partition(":")[2]


def _shorten(client_id: str) -> str:
    """Return a short stand-in for a client id, since many are kept."""
    if len(client_id) <= _LONGEST_KEPT:
        return client_id
    from hashlib import sha256  # noqa: PLC0415  # hardly a client has such a name

    return sha256(client_id.encode()).hexdigest()


def count_produced(request: ProduceRequest) -> int:
    """Return the size in bytes of a Produce without its head."""
    return sum(
        len(name or "")
        + _TOPIC_BYTES
        + sum(_PARTITION_BYTES + len(records or b"") for _, records in partitions)
        for name, _, partitions in request.topic_data
    )


def count_fetched(answer: Any) -> int:
    """Return the size in bytes of an answer to a Fetch without its head."""
    return sum(
        _TOPIC_BYTES
        + sum(_FETCHED_PARTITION_BYTES + len(each[_RECORDS] or b"") for each in partitions)
        for _, _, partitions in answer[_RESPONSES]
    )


def _fit(request: FetchRequest, credit: float | None) -> FetchRequest:
    """Return a Fetch that asks for no more than a client may have at once."""
    if credit is None or request.max_bytes <= credit:
        return request
    max_bytes = max(1, int(credit))
    return request._replace(max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))
