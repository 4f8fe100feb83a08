"""From a frame to its handler and back. Compiled by Cython.

The types of C stand in ``_dispatch_kernels.pxd``.
"""

from typing import TYPE_CHECKING, Any

import cython

from siltstone.broker.net.slices import BODY_BYTES, handle_in_slices
from siltstone.broker.security.rights import CLUSTER_NAME
from siltstone.config.listeners import AUTO
from siltstone.protocol.core import read, read_head, write_response
from siltstone.protocol.errors import ProtocolError

if not cython.compiled:  # for the type checkers: what the .pxd has
    from time import perf_counter

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Protocol

    from siltstone.broker.api import Api
    from siltstone.broker.security.quotas.rates import Mutations
    from siltstone.broker.security.rights import Rights
    from siltstone.broker.services import Services
    from siltstone.protocol.core import Table
    from siltstone.protocol.errors import KafkaError
    from siltstone.protocol.parts import Answer, LateAnswer

    class TurnTimer(Protocol):
        """Counts how long the turns of connections hold the loop."""

        def begin(self) -> object:
            """Begin a turn, perhaps inside of another one's; return what `end` asks."""

        def end(self, connection: Any, began: Any) -> None:
            """Count what the turn has taken since."""

    class Connection(Protocol):
        """The connection of a request."""

        @property
        def caller(self) -> "Caller":
            """The client, its address and its listener."""

        @property
        def peer(self) -> str:
            """Its address, as log lines print it."""

        @property
        def client_id(self) -> str | None:
            """The name that the client gives itself."""

        @property
        def principal(self) -> str:
            """The principal that the client has proven to be."""

        @property
        def host(self) -> str:
            """Its address without the port."""

        @property
        def reached(self) -> str:
            """The address of this machine that the client has reached."""

        @property
        def software(self) -> tuple[str, str]:
            """The name and the version that it gives itself; empty if it says nothing."""

        @property
        def login_seconds(self) -> float:
            """For how long its login still counts."""

        def find_login(self) -> "Login | None":
            """Return the login; where the listener asks for none, log that it was wanted."""

        def note_software(self, name: str, version: str) -> None:
            """Keep what the client says that it is."""

        def note_refused_handshake(self, reason: str) -> None:
            """Log that the client said something that is not served."""

    class Login(Protocol):
        """The login of a connection: its answers, some of which have to wait."""

        def handshake(
            self, connection: Any, version: int, mechanism: str
        ) -> "Any | Coroutine[Any, Any, Any]":
            """Begin a conversation."""

        def authenticate(self, connection: Any, token: bytes) -> "Any | Coroutine[Any, Any, Any]":
            """Take the client's next token."""

    class ApiStats(Protocol):
        """The figures of one API."""

        def observe(self, seconds: float) -> None:
            """Count a request and its time."""

        def failed(self, error_code: int) -> None:
            """Count an error code."""

        def all_failed(self, error_codes: list[int]) -> None:
            """Count error codes."""

    class RequestStats(Protocol):
        """The figures of all APIs; ``refused`` counts frames that could not be read."""

        refused: int

        @property
        def by_key(self) -> Mapping[int, ApiStats]:
            """The figures of each API, by its key."""

        def refused_batch(self, error: KafkaError) -> None:
            """Count a batch that was not appended."""

    class RareRequests(Protocol):
        """The work for requests that are not answered in one turn (`broker.net.dispatch`)."""

        def wait(
            self,
            connection: Connection,
            route: "Route",
            version: int,
            correlation_id: int,
            response: Coroutine[Any, Any, Any],
            waited: Any,
            began: float,
        ) -> LateAnswer:
            """Return the answer that the coroutine gives later."""

        def answer_large(
            self,
            connection: Connection,
            route: "Route",
            version: int,
            correlation_id: int,
            row: Any,
            began: float,
        ) -> LateAnswer:
            """Return an answer that is too large to be written at once."""

        def handle_large(
            self,
            route: "Route",
            context: "RequestContext",
            table: Table,
            buffer: memoryview,
            position: int,
            end: int,
        ) -> Coroutine[Any, Any, Any]:
            """Return a coroutine that reads and handles a request with many elements."""

        def refuse_version(
            self, connection: Connection, key: int, version: int, correlation_id: int
        ) -> Answer:
            """Answer a version or an API that is not served, or close the connection."""

        def explain_head(
            self, buffer: memoryview, start: int, end: int, error: ProtocolError
        ) -> ProtocolError:
            """Return an error that names the request whose head cannot be read."""

        def explain(
            self, connection: Connection, route: "Route", version: int, error: ProtocolError
        ) -> ProtocolError:
            """Return an error for a request that cannot be decoded, with its client and API."""

        def fault(
            self, connection: Connection, route: "Route", version: int, error: Exception
        ) -> ProtocolError:
            """Log a fault of this broker, and return the error that closes the connection."""


NO_LIMIT = 1 << 62
AT_ONCE = 4000
"""A message of at most so many elements is read or written at once: in a millisecond at most."""

# Steps of 1, 2.5 and 5, from 50 us (a small produce) to 5 s (longer than a default long poll).
BOUNDS_SECONDS = (
    0.000_05,
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
)


class Histogram:
    """Durations in fixed buckets; bucket ``i`` holds what is at most ``BOUNDS_SECONDS[i]``.

    The last bucket has no bound. Loop only.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        bucket = 0
        for bound in BOUNDS_SECONDS:
            if seconds <= bound:
                break
            bucket += 1
        self.buckets[bucket] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.buckets)


class Caller:
    """The client of a connection: its address, its listener, its name and its rights.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``rights`` are None if everybody may do everything.
    """

    __slots__ = ("client_id", "listener", "peer", "rights", "services")

    def __init__(self, services: "Services", listener: str, peer: str) -> None:
        self.client_id: str | None = None
        self.listener = listener
        self.peer = peer
        self.rights: Rights | None = None
        self.services = services


class RequestContext:
    """One request: its version, its client, its listener.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``stats`` are the figures of all APIs. ``connection`` is None in tests. ``rights`` are None if
    everybody may do everything. ``mutations`` are None if no quota counts them. ``may_wait`` says
    that the request's bytes, and its connection, wait for the end of the round (`LoopRound`).
    """

    __slots__ = (
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "listener",
        "may_wait",
        "mutations",
        "peer",
        "rights",
        "services",
        "stats",
        "version",
    )

    def __init__(  # noqa: PLR0913  # all that is known of a request
        self,
        *,
        services: "Services",
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        listener: str,
        peer: str,
        stats: "RequestStats",
        connection: "Connection | None" = None,
    ) -> None:
        self.connection = connection
        self.services = services
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.peer = peer
        self.rights: Rights | None = None
        self.mutations: Mutations | None = None
        self.stats = stats
        self.may_wait = False

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port that the client is told for the listener that its request came in on."""
        host, port = told = self.services.advertised[self.listener]
        if host == AUTO and self.connection is not None:
            return self.connection.reached, port
        return told

    def may(self, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
        """Tell whether the client may do something; if not, the audit log says so."""
        return self.rights is None or self.rights.may(operation, resource, name)

    def take_partitions(self, count: int) -> None:
        """Count partitions that this request makes or deletes next, if it has a quota.

        Raises:
            ThrottlingQuotaExceeded: There have been too many.
        """
        if self.mutations is not None:
            self.mutations.take(count)

    def sees(self, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
        """Tell the same where what the client may not do is hidden, and not refused."""
        return self.rights is None or self.rights.sees(operation, resource, name)


class Route:
    """One row of the table of APIs at run time: its handler, its tables and its figures.

    ``requests`` and ``responses`` hold the tables by version, None until one is made.
    """

    __slots__ = (
        "api",
        "handler",
        "has_tags",
        "highest",
        "lowest",
        "max_elements",
        "requests",
        "responses",
        "slices",
        "stats",
    )

    def __init__(self, api: "Api", stats: "ApiStats") -> None:
        self.api = api
        self.stats = stats
        self.lowest = api.versions.start
        self.highest = api.versions.stop - 1
        self.max_elements = api.max_elements
        self.slices = api.slices
        self.handler: Callable[..., Any] = self._load_and_handle
        self.requests: list[Table | None] = [None] * api.versions.stop
        self.responses: list[Table | None] = [None] * api.versions.stop
        self.has_tags = [False] * api.versions.stop

    def load(self) -> None:
        """Import the handler now instead of with its first request."""
        self.handler = self.api.load()

    def load_tables(self, version: int) -> "Table":
        """Make the tables of a version, unless they are made."""
        request, response = self.api.load_messages()
        self.requests[version] = table = request.table(version)
        self.responses[version] = response.table(version)
        self.has_tags[version] = response.has_tagged_head(version)
        return table

    def _load_and_handle(self, *arguments: Any) -> Any:
        self.load()
        return self.handler(*arguments)


class Unwritten:
    """A request whose batches wait to be written, and so its response.

    A handler returns it where ``context.may_wait``. When the batches are written, or have failed,
    the turn asks it for its answer.
    """

    __slots__ = ("_began", "_gate", "_route", "context")

    _gate: "Gate"
    _route: Route
    _began: float

    def __init__(self, context: RequestContext) -> None:
        self.context = context

    def answer(self) -> "Any":
        """Return the response, or None.

        Raises:
            ProtocolError: The connection must close instead (acks=0).
        """
        raise NotImplementedError

    def encode(self) -> "bytes | None":
        """Return the answer as it is sent, or None.

        Raises:
            ProtocolError: The connection must close.
        """
        context = self.context
        gate = self._gate
        connection: Any = context.connection
        try:
            return gate._conclude(self._route, context, self.answer(), self._began)  # type: ignore[return-value]  # noqa: SLF001
        except ProtocolError as error:
            gate.stats.refused += 1
            rare = gate._rare  # noqa: SLF001
            raise rare.explain(connection, self._route, context.version, error) from error
        except Exception as error:
            rare = gate._rare  # noqa: SLF001
            raise rare.fault(connection, self._route, context.version, error) from error


class Gate:
    """Makes an answer of a frame, if that comes in the same turn; ``rare`` does all else.

    Compiled and held by `Dispatcher`, so that a request makes no call of Python's but its handler.
    """

    __slots__ = ("_rare", "_routes", "_served", "stats", "timer")

    def __init__(
        self,
        routes: "Mapping[int, Route]",
        served: "list[tuple[int, int, int] | None]",
        stats: "RequestStats",
        rare: "RareRequests",
    ) -> None:
        self._routes = dict(routes)
        self._served = served
        self._rare = rare
        self.stats = stats
        # Counts how long the turns of connections hold the loop; None: nobody does.
        self.timer: TurnTimer | None = None

    def dispatch(
        self,
        connection: "Connection",
        buffer: memoryview,
        start: int,
        end: int,
        may_wait: bool = False,  # C has no names
    ) -> "Answer | Unwritten | LateAnswer":
        """Serve the frame ``buffer[start:end]``; on return the caller may reuse it.

        A coroutine has copied what it needs, unless the frame has a buffer of its own. With
        ``may_wait`` the caller keeps the frame until it has called `Appends.write`, and takes an
        `Unwritten` for an answer.

        Raises:
            ProtocolError: These bytes are no request that we serve; the connection must close.
        """
        began = perf_counter()
        try:
            head = read_head(buffer, start, end, self._served)
        except ProtocolError as error:
            self.stats.refused += 1
            raise self._rare.explain_head(buffer, start, end, error) from error
        key, version, correlation_id, client_id, body = head
        if body < 0:
            return self._rare.refuse_version(connection, key, version, correlation_id)
        route = self._routes[key]
        caller = connection.caller
        caller.client_id = client_id
        try:
            table = route.requests[version] or route.load_tables(version)
            request, position = read(table, buffer, body, end, route.max_elements, AT_ONCE)
            context = RequestContext.__new__(RequestContext)  # __init__ costs as much as a read
            context.services = caller.services
            context.api_key = key
            context.version = version
            context.correlation_id = correlation_id
            context.client_id = client_id
            context.listener = caller.listener
            context.peer = caller.peer
            context.rights = caller.rights
            context.mutations = None
            context.stats = self.stats
            context.connection = connection
            context.may_wait = may_wait and position >= 0
            if position < 0:
                response = self._rare.handle_large(route, context, table, buffer, body, end)
            elif (
                route.slices is None
                or end - body <= BODY_BYTES
                or not route.slices.is_large(request)
            ):
                response = route.handler(context, request)
            else:
                response = handle_in_slices(route.slices, route.handler, context, request)
            if isinstance(response, Unwritten):
                unwritten: Unwritten = response
                unwritten._gate = self  # noqa: SLF001
                unwritten._route = route  # noqa: SLF001
                unwritten._began = began  # noqa: SLF001
                return unwritten
            return self._answer(connection, route, context, response, began)
        except ProtocolError as error:
            self.stats.refused += 1
            raise self._rare.explain(connection, route, version, error) from error
        except Exception as error:
            raise self._rare.fault(connection, route, version, error) from error

    def _answer(
        self,
        connection: "Connection",
        route: Route,
        context: RequestContext,
        response: "Any",
        began: float,
    ) -> "Answer | LateAnswer":
        """Return the answer of a response, or what gives it later; step a coroutine until it waits.

        A coroutine that never waits costs no task.
        """
        version = context.version
        correlation_id = context.correlation_id
        if response is not None and not isinstance(response, tuple):
            try:
                waited = response.send(None)
            except StopIteration as done:
                response = done.value
            else:
                return self._rare.wait(
                    connection, route, version, correlation_id, response, waited, began
                )
        answer = self._conclude(route, context, response, began, AT_ONCE)
        if answer is None and response is not None:
            return self._rare.answer_large(
                connection, route, version, correlation_id, response, began
            )
        return answer

    def _conclude(
        self,
        route: Route,
        context: RequestContext,
        response: "Any",
        began: float,
        at_once: int = NO_LIMIT,
    ) -> "Answer":
        """Return the answer of a response, or None, and count the request.

        None also if the response has more elements than that; the request is not counted then.
        """
        answer = None
        if response is not None:
            answer = self.respond(route, context.version, context.correlation_id, response, at_once)
            if answer is None:
                return None
        route.stats.observe(perf_counter() - began)
        return answer

    def respond(
        self,
        route: Route,
        version: int,
        correlation_id: int,
        response: "Any",
        at_once: int = NO_LIMIT,
    ) -> "Answer":
        """Write a response, and count its error codes; None if it has more elements."""
        errors: list[int] = []
        table = route.responses[version]
        assert table is not None  # noqa: S101  # made when the request was read
        tags = route.has_tags[version]
        answer = write_response(table, response, correlation_id, tags, errors, at_once)
        if len(errors) > 1:
            route.stats.all_failed(errors)
        elif errors:
            route.stats.failed(errors[0])
        return answer
