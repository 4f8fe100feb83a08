"""From a frame to its answer: find the row, check the version, decode, handle, encode.

An answer is bytes, a list of bytes and file ranges, nothing (acks=0), or a coroutine when the
request has to wait. A request meets its only ``except Exception`` here: a fault in a handler is
logged with its traceback once and closes that connection, since no answer fits every API.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from struct import Struct
from struct import error as StructError  # noqa: N812  # a class, whatever its name looks like
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.api import APIS, BY_KEY
from broker.context import RequestContext
from broker.response_errors import find_errors
from protocol.errors import ProtocolError
from protocol.headers import API_VERSIONS, is_flexible, parse_header
from protocol.messages import decode_request, encode_response, preload
from protocol.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.api import Api
    from broker.connection import Connection
    from broker.request_stats import ApiStats, RequestStats

Answer: TypeAlias = bytes | Parts | None
Waiting: TypeAlias = Coroutine[Any, Any, Answer]

log = logging.getLogger(__name__)

_HEAD = Struct(">hhih")
# These take the frame itself and write the answer: no entity stands between records, or the
# smallest and most frequent messages, and the socket.
_RAW = frozenset({0, 1, 8, 9, 12, 26, 68})


class Route:
    """One row of the table at run time: its handler, once imported, and its figures."""

    __slots__ = ("api", "first_flexible", "handler", "highest", "is_raw", "lowest", "stats")

    def __init__(self, api: Api, stats: ApiStats) -> None:
        self.api = api
        self.stats = stats
        self.lowest = api.versions[0]
        self.highest = api.versions[-1]
        self.first_flexible = next(
            (version for version in api.versions if is_flexible(api.key, version)), 1 << 15
        )
        self.is_raw = api.key in _RAW
        self.handler: Callable[..., Any] = self._load_and_handle

    def load(self) -> None:
        """Import the handler now instead of with its first request."""
        self.handler = self.api.load()

    def _load_and_handle(self, *arguments: Any) -> Any:
        self.load()
        return self.handler(*arguments)


class Dispatcher:
    """Every request passes through here (loop only)."""

    def __init__(self, stats: RequestStats) -> None:
        self.stats = stats
        self._routes = {api.key: Route(api, stats.by_key[api.key]) for api in APIS}

    def preload(self) -> Iterator[None]:
        """Import one module per step, so that no first request pays for it.

        Of the messages only the newest versions: all of them are 7 MiB, and an older client's
        first request pays a few milliseconds for its own.
        """
        for route in self._routes.values():
            route.load()
            yield
        yield from preload((api.key, api.versions[-1]) for api in APIS if api.key not in _RAW)

    def dispatch(
        self, connection: Connection, buffer: memoryview, start: int, end: int
    ) -> Answer | Waiting:
        """Serve the frame ``buffer[start:end]``, which is the caller's again on return.

        A coroutine, too, has taken what it needs out of the buffer, unless the frame has a buffer
        of its own.

        Raises:
            ProtocolError: These bytes are no request that we serve; the connection must close.
        """
        began = perf_counter()
        try:
            key, version, correlation_id, client_size = _HEAD.unpack_from(buffer, start)
        except StructError:
            raise ProtocolError(f"reason=a frame of {end - start} bytes holds no header") from None
        route = self._routes.get(key)
        if route is None or not route.lowest <= version <= route.highest:
            return self._refuse_version(key, version, correlation_id)
        try:
            if route.is_raw:
                body = start + _HEAD.size + max(0, client_size)
                if version >= route.first_flexible and body < end and not buffer[body]:
                    body += 1
                else:
                    body = self._read_head(connection, route, version, buffer, start, end)
                reply = route.handler(connection, version, correlation_id, buffer, body, end)
            else:
                reply = self._handle(connection, route, version, buffer, start, end)
        except ProtocolError as error:
            self.stats.refused += 1
            raise self._explain(connection, route, version, error) from error
        except Exception as error:
            raise self._fault(connection, route, version, error) from error
        if reply is None or isinstance(reply, (bytes, list)):
            route.stats.observe(perf_counter() - began)
            return reply
        return self._wait(connection, route, version, reply, began)

    def _read_head(
        self,
        connection: Connection,
        route: Route,
        version: int,
        buffer: memoryview,
        start: int,
        end: int,
    ) -> int:
        flexible = version >= route.first_flexible
        header = parse_header(buffer, start, end, flexible=flexible)
        connection.client_id = header.client_id
        return header.body_position

    def _handle(
        self,
        connection: Connection,
        route: Route,
        version: int,
        buffer: memoryview,
        start: int,
        end: int,
    ) -> Answer | Waiting:
        """Decode to the newest entity, handle, and encode in the version asked."""
        flexible = version >= route.first_flexible
        header = parse_header(buffer, start, end, flexible=flexible)
        connection.client_id = header.client_id
        api = route.api
        request = decode_request(api.key, version, buffer, header.body_position, end)
        context = RequestContext(
            rooms=connection.rooms,
            api_key=api.key,
            version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            listener=connection.listener.name,
            peer=connection.peer,
        )
        response = route.handler(context, request)
        if isinstance(response, Coroutine):
            return _encode_later(context, route, response)
        return _encode(context, route, response)

    async def _wait(
        self, connection: Connection, route: Route, version: int, reply: Waiting, began: float
    ) -> Answer:
        try:
            answer = await reply
        except ProtocolError as error:
            raise self._explain(connection, route, version, error) from error
        except Exception as error:
            raise self._fault(connection, route, version, error) from error
        route.stats.observe(perf_counter() - began)
        return answer

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> Answer:
        """Answer ApiVersions of a newer kind as every client can read it; close on others.

        Kafka does the same: a client asks ApiVersions first, so it should know better.
        """
        api = BY_KEY.get(key)
        if key == API_VERSIONS:
            from broker.handlers.api_versions import refuse_version  # noqa: PLC0415

            return _joined(encode_response(API_VERSIONS, 0, correlation_id, refuse_version()))
        self.stats.refused += 1
        if api is None:
            raise ProtocolError(f"api={key} version={version} reason=this API is not served")
        raise ProtocolError(
            f"api={api.name} version={version} reason=versions {api.versions[0]} to "
            f"{api.versions[-1]} are served"
        )

    @staticmethod
    def _explain(
        connection: Connection, route: Route, version: int, error: ProtocolError
    ) -> ProtocolError:
        return ProtocolError(
            f"api={route.api.name} version={version} client={connection.client_id!r} reason={error}"
        )

    @staticmethod
    def _fault(
        connection: Connection, route: Route, version: int, error: Exception
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


async def _encode_later(
    context: RequestContext, route: Route, response: Coroutine[Any, Any, Any]
) -> Answer:
    return _encode(context, route, await response)


def _encode(context: RequestContext, route: Route, response: Any) -> Answer:
    for code in find_errors(response):
        route.stats.failed(code)
    return _joined(
        encode_response(context.api_key, context.version, context.correlation_id, response)
    )


def _joined(parts: Parts) -> bytes | Parts:
    """Return an answer without file ranges as the bytes it is."""
    return parts[0] if len(parts) == 1 and type(parts[0]) is bytes else parts
