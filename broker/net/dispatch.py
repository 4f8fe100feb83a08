"""From a frame to its answer: find the route, read the body, call the handler, write the answer.

An answer is bytes, a list of bytes and file ranges, nothing (acks=0), or a coroutine when the
request has to wait. A coroutine of a handler runs in the connection's turn until it waits, and only
then becomes a task; if it never waits, it is answered like any other handler. A fault in a handler
is logged once with its traceback and closes the connection, since no error answer fits every API.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.broker.net.gate import Gate, Route
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.loop_share import LoopShare, parts_of
from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.services import RequestContext
from siltstone.protocol.core import Table, read_in_steps, write_response, write_response_in_steps
from siltstone.protocol.errors import ErrorCode, ProtocolError
from siltstone.protocol.framing import API_VERSIONS, FIRST_FLEXIBLE
from siltstone.protocol.messages import AT_ONCE
from siltstone.protocol.parts import Answer
from siltstone.storage.clock import perf_counter

if TYPE_CHECKING:
    from siltstone.broker.context import Connection
    from siltstone.broker.net.gate import TurnTimer
    from siltstone.broker.security.audited_changes import Changes

_logger = logging.getLogger(__name__)

_KEY_AND_VERSION = Struct(">hh")
SERVED = [
    (api.versions[0], api.versions[-1], FIRST_FLEXIBLE[key]) if (api := BY_KEY.get(key)) else None
    for key in range(max(BY_KEY) + 1)
]


class Dispatcher:
    """The table of APIs as it is served (loop only); every request passes through ``gate``.

    ``changes`` writes the changes of clients to the audit log, if there is one.
    """

    def __init__(self, stats: RequestStats, changes: Changes | None = None) -> None:
        apis = APIS if changes is None else [changes.follow(api) for api in APIS]
        self._routes = {api.key: Route(api, stats.by_key[api.key]) for api in apis}
        self._replaced: set[int] = set()
        self._metered: set[int] = set()
        self._find_metered: Callable[[Api], Callable[..., Any] | None] = lambda _: None
        self.gate = Gate(self._routes, SERVED, stats, RareRequests(stats))

    def preload(self) -> Iterator[None]:
        """Import one handler or build one API's tables in each step, before a request needs them.

        The steps cover only the APIs that clients use, not those of administrators, and only the
        tables of the newest versions: the first request of an older client builds its tables in a
        fraction of a millisecond.
        """
        for route in self._routes.values():
            if not route.api.is_preloaded:
                continue
            route.load_tables(route.highest)
            yield
            if route.api.key not in self._replaced | self._metered:
                route.load()
            yield

    def api_of(self, key: int) -> Api:
        """Return the row of an API as it is served, with wrappers around its handler."""
        api: Api = self._routes[key].api
        return api

    def replace_handler(self, key: int, handler: Callable[..., Any] | None) -> None:
        """Replace the handler of an API, or with None restore its own handler."""
        route = self._routes[key]
        if handler is None:
            self._replaced.discard(key)
            route.load()
            self._meter(route)
        else:
            self._replaced.add(key)
            self._metered.discard(key)
            route.handler = handler

    def meter(
        self, find: Callable[[Api], Callable[..., Any] | None], timer: TurnTimer | None
    ) -> None:
        """Replace handlers by those that ``find`` returns; None keeps an API's own handler.

        ``find`` is called now. ``timer`` measures whole turns.
        """
        self._find_metered = find
        self.gate.timer = timer
        for key, route in self._routes.items():
            if key not in self._replaced:
                self._meter(route)

    def _meter(self, route: Route) -> None:
        key = route.api.key
        metered = self._find_metered(route.api)
        if metered is not None:
            self._metered.add(key)
            route.handler = metered
        elif key in self._metered:
            self._metered.discard(key)
            route.load()


@types.coroutine
def _go_on(coroutine: Coroutine[Any, Any, Any], waited: Any) -> Generator[Any, Any, Any]:
    """Continue to await a coroutine that has begun and waits."""
    error: BaseException | None
    while True:
        try:
            yield waited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as raised:  # noqa: BLE001  # passed to the coroutine, as in await
            error = raised
        else:
            error = None
        try:
            waited = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as end:
            return end.value


class RareRequests:
    """Serves the requests that `Gate` does not: waiting, large and refused ones.

    Each call is made in a turn of a connection; a coroutine that it returns ends in a later turn.
    """

    __slots__ = ("_faults", "_stats")

    def __init__(self, stats: RequestStats) -> None:
        self._stats = stats
        self._faults = BoundedLines(perf_counter, 1)

    async def wait(
        self,
        connection: Connection,
        route: Route,
        version: int,
        correlation_id: int,
        response: Coroutine[Any, Any, Any],
        waited: Any,
        began: float,
    ) -> Answer:
        """Return the later answer of a coroutine, which has begun and waits for something."""
        try:
            row = await _go_on(response, waited)
        except ProtocolError as error:
            self._stats.refused += 1  # errors before the first wait are counted by the gate
            raise self.explain(connection, route, version, error) from error
        except Exception as error:
            raise self.fault(connection, route, version, error) from error
        answering = self.answer_large(connection, route, version, correlation_id, row, began)
        del row
        return await answering

    async def answer_large(
        self,
        connection: Connection,
        route: Route,
        version: int,
        correlation_id: int,
        row: Any,
        began: float,
    ) -> Answer:
        """Return the answer of a response, or None; a long response is written in pieces."""
        answer: Answer = None
        try:
            errors: list[int] = []
            if row is not None:
                table = route.responses[version]
                assert table is not None  # noqa: S101  # made when the request was read
                arguments = table, row, correlation_id, route.has_tags[version], errors
                answer = write_response(*arguments, AT_ONCE)
                if answer is None:
                    share = LoopShare()
                    await share.turn()  # the handler has used up its own
                    answer = await share.step_through(write_response_in_steps(*arguments))
                    parts = parts_of(row)
                    del row, arguments
                    await share.free(parts)
            if errors:
                route.stats.all_failed(errors)
        except ProtocolError as error:
            raise self.explain(connection, route, version, error) from error
        except Exception as error:
            raise self.fault(connection, route, version, error) from error
        route.stats.observe(perf_counter() - began)
        return answer

    def handle_large(
        self,
        route: Route,
        context: RequestContext,
        table: Table,
        buffer: memoryview,
        position: int,
        end: int,
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that reads and handles a request with many elements."""
        if end <= SHARED_BYTES:  # it may be in the shared buffer, which the next frame overwrites
            buffer = memoryview(bytearray(buffer[:end]))
        return self._read_and_handle(route, context, table, buffer, position, end)

    async def _read_and_handle(
        self,
        route: Route,
        context: RequestContext,
        table: Table,
        buffer: memoryview,
        position: int,
        end: int,
    ) -> Any:
        """Read a request in pieces, handle it, and free it in pieces, each in turns of its own."""
        share = LoopShare()
        steps = read_in_steps(table, buffer, position, end, route.max_elements)
        request, _ = await share.step_through(steps)
        del steps
        await share.turn()
        response = route.handler(context, request)
        if response is not None and not isinstance(response, tuple):
            response = await response
        await share.turn()
        parts = parts_of(request)
        del request
        await share.free(parts)
        return response

    def refuse_version(
        self, connection: Connection, key: int, version: int, correlation_id: int
    ) -> Answer:
        """Answer a too new ApiVersions request with version 0; close on other requests.

        Kafka does the same: a client sends ApiVersions first and learns which versions are served.
        """
        api = BY_KEY.get(key)
        if key == API_VERSIONS:
            from siltstone.protocol.messages import api_versions  # noqa: PLC0415

            connection.note_refused_handshake(f"version {version} of ApiVersions is not served")
            lowest, highest = BY_KEY[key].advertised
            response = api_versions.ApiVersionsResponse(
                error_code=ErrorCode.unsupported_version,
                api_keys=[api_versions.ApiVersion(key, lowest, highest)],
            )
            refused: Answer = api_versions.RESPONSE.respond(0, correlation_id, response)
            return refused
        self._stats.refused += 1
        if api is None:
            raise ProtocolError(f"api={key} version={version} reason=this API is not served")
        raise ProtocolError(
            f"api={api.name} version={version} reason=versions {api.versions[0]} to "
            f"{api.versions[-1]} are served"
        )

    def explain_head(
        self, buffer: memoryview, start: int, end: int, error: ProtocolError
    ) -> ProtocolError:
        """Return ``error`` with the API and version added, if these four bytes have come."""
        if end - start < _KEY_AND_VERSION.size:
            return error
        key, version = _KEY_AND_VERSION.unpack_from(buffer, start)
        api = BY_KEY.get(key)
        name = key if api is None else api.name
        return ProtocolError(f"api={name} version={version} reason={error}")

    def explain(
        self, connection: Connection, route: Route, version: int, error: ProtocolError
    ) -> ProtocolError:
        """Return an error that names the client and the API of a request that cannot be decoded."""
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} reason={error}"
        )

    def fault(
        self, connection: Connection, route: Route, version: int, error: Exception
    ) -> ProtocolError:
        """Return an error that closes the connection, for a fault of the broker.

        The fault is logged with its traceback; at most one a second, since a client may repeat it.
        """
        if self._faults.takes():
            _logger.error(
                "request failed api=%s version=%d peer=%s others=%d",
                route.api.name,
                version,
                connection.peer,
                self._faults.others(),
                exc_info=error,
            )
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} "
            f"reason=the broker failed: {type(error).__name__}"
        )
