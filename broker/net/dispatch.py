"""From a frame to its answer: find the row, read by its tables, handle, write by its tables.

An answer is bytes, a list of bytes and file ranges, nothing (acks=0), or a coroutine when the
request has to wait. A request meets its only ``except Exception`` here: a fault in a handler is
logged with its traceback once and closes that connection, since no answer fits every API.
"""

from __future__ import annotations

import logging
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from siltstone.broker.api import APIS, BY_KEY
from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.broker.net.dispatch_kernels import AT_ONCE, Gate, Route
from siltstone.broker.net.slices import handle_in_slices
from siltstone.broker.process.loop_share import finish_in_shares, free, parts_of
from siltstone.protocol.core import read_in_steps, write_response, write_response_in_steps
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.headers import API_VERSIONS, FIRST_FLEXIBLE

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from siltstone.broker.net.answers import Answer
    from siltstone.broker.net.connection import Connection
    from siltstone.broker.net.dispatch_kernels import RequestContext
    from siltstone.broker.net.request_stats import RequestStats
    from siltstone.protocol.core import Table

log = logging.getLogger(__name__)

_KEY_AND_VERSION = Struct(">hh")
_SERVED = [
    (api.versions[0], api.versions[-1], FIRST_FLEXIBLE[key]) if (api := BY_KEY.get(key)) else None
    for key in range(max(BY_KEY) + 1)
]


class Dispatcher(Gate):
    """Every request passes through here (loop only)."""

    __slots__ = ()

    def __init__(self, stats: RequestStats) -> None:
        routes = {api.key: Route(api, stats.by_key[api.key]) for api in APIS}
        super().__init__(routes, _SERVED, stats)

    def preload(self) -> Iterator[None]:
        """Import one handler or make one API's tables per step: no first request pays for it.

        Only the tables of the newest versions are made: an older client's first request makes its
        own in a fraction of a millisecond.
        """
        for route in self._routes.values():
            route.load_tables(route.highest)
            yield
            route.load()
            yield

    async def _wait(
        self,
        connection: Connection,
        route: Route,
        version: int,
        correlation_id: int,
        response: Coroutine[Any, Any, Any],
        began: float,
    ) -> Answer:
        """Answer when the response is there; write, and free, one of many elements in pieces."""
        answer: Answer = None
        try:
            row = await response
            if row is not None:
                errors: list[int] = []
                table = route.responses[version]
                assert table is not None  # noqa: S101  # made when the request was read
                arguments = table, row, correlation_id, route.has_tags[version], errors
                answer = write_response(*arguments, AT_ONCE)
                if answer is None:
                    answer = await finish_in_shares(write_response_in_steps(*arguments))
                    parts = parts_of(row)
                    del row, arguments
                    await free(parts)
                if errors:
                    route.stats.all_failed(errors)
        except ProtocolError as error:
            raise self._explain(connection, route, version, error) from error
        except Exception as error:
            raise self._fault(connection, route, version, error) from error
        route.stats.observe(perf_counter() - began)
        return answer

    def _handle_large(  # all that is known of a request
        self,
        route: Route,
        context: RequestContext,
        table: Table,
        buffer: memoryview,
        position: int,
        end: int,
    ) -> Coroutine[Any, Any, Any]:
        if end <= SHARED_BYTES:  # the buffer may be the one that the next frame comes into
            buffer = memoryview(bytearray(buffer[:end]))
        return self._read_and_handle(route, context, table, buffer, position, end)

    async def _read_and_handle(  # all that is known of a request
        self,
        route: Route,
        context: RequestContext,
        table: Table,
        buffer: memoryview,
        position: int,
        end: int,
    ) -> Any:
        """Read a request in pieces, then handle it."""
        try:
            steps = read_in_steps(table, buffer, position, end, route.max_elements)
            request, _ = await finish_in_shares(steps)
        except ProtocolError:
            self.stats.refused += 1
            raise
        del steps
        if route.slices is None or not route.slices.is_large(request):
            response = route.handler(context, request)
        else:
            response = handle_in_slices(route.slices, route.handler, context, request)
        if response is not None and not isinstance(response, tuple):
            response = await response
        parts = parts_of(request)
        del request
        await free(parts)
        return response

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> Answer:
        """Answer ApiVersions of a newer kind as every client can read it; close on others.

        Kafka does the same: a client asks ApiVersions first, so it should know better.
        """
        api = BY_KEY.get(key)
        if key == API_VERSIONS:
            from siltstone.broker.handlers.api_versions import refuse_version  # noqa: PLC0415
            from siltstone.protocol.messages.api_versions import RESPONSE  # noqa: PLC0415

            refused: Answer = RESPONSE.respond(0, correlation_id, refuse_version())
            return refused
        self.stats.refused += 1
        if api is None:
            raise ProtocolError(f"api={key} version={version} reason=this API is not served")
        raise ProtocolError(
            f"api={api.name} version={version} reason=versions {api.versions[0]} to "
            f"{api.versions[-1]} are served"
        )

    def _explain_head(self, begin: bytes, error: ProtocolError) -> ProtocolError:
        if len(begin) < _KEY_AND_VERSION.size:
            return error
        key, version = _KEY_AND_VERSION.unpack(begin)
        api = BY_KEY.get(key)
        name = key if api is None else api.name
        return ProtocolError(f"api={name} version={version} reason={error}")

    def _explain(
        self, connection: Connection, route: Route, version: int, error: ProtocolError
    ) -> ProtocolError:
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} reason={error}"
        )

    def _fault(
        self, connection: Connection, route: Route, version: int, error: Exception
    ) -> ProtocolError:
        """A fault of ours: its traceback once, and the client learns by a closed connection."""
        log.error(
            "request failed api=%s version=%d peer=%s",
            route.api.name,
            version,
            connection.peer,
            exc_info=error,
        )
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} "
            f"reason=the broker failed: {type(error).__name__}"
        )
