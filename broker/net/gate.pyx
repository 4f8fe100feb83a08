"""Passes a frame to its handler, and encodes the answer."""

from typing import TYPE_CHECKING

cimport cython
from cpython.ref cimport Py_DECREF, PyObject

from siltstone.broker.context cimport Caller, RequestContext, Unwritten
from siltstone.broker.process.histogram cimport Histogram
from siltstone.protocol.core._messages cimport read, read_head, write_response
from siltstone.storage.clock cimport perf_counter

from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from siltstone.broker.api import Api
    from siltstone.broker.context import Connection
    from siltstone.broker.net.dispatch import RareRequests
    from siltstone.broker.process.request_stats import ApiStats, RequestStats
    from siltstone.protocol.core import Table
    from siltstone.protocol.parts import Answer, LateAnswer

    class TurnTimer(Protocol):
        def begin(self) -> object: ...
        def end(self, connection: Any, began: Any) -> None: ...

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_ERROR
        PYGEN_NEXT

    PySendResult PyIter_Send(object coroutine, object value, PyObject** result) except PYGEN_ERROR

cdef Py_ssize_t NO_LIMIT = 0x7FFFFFFFFFFFFFFF
cdef Py_ssize_t MOST = AT_ONCE


@cython.final
cdef class Route:
    """One row of the table of APIs at run time: its handler, its tables and its figures.

    ``requests`` and ``responses`` hold the tables by version; None until a table is built.
    """

    cdef public object api  # type: Api
    cdef public object handler  # type: Callable[..., Any]
    cdef public list requests, responses  # type: list[Table | None]
    cdef public list has_tags  # type: list[bool]
    cdef public Histogram stats  # type: ApiStats
    cdef public int highest, lowest
    cdef public Py_ssize_t max_elements

    def __init__(self, api: Api, Histogram stats: ApiStats):
        self.api = api
        self.stats = stats
        self.lowest = api.versions.start
        self.highest = api.versions.stop - 1
        self.max_elements = api.max_elements
        self.handler = self._load_and_handle
        self.requests = [None] * api.versions.stop
        self.responses = [None] * api.versions.stop
        self.has_tags = [False] * api.versions.stop

    def load(self):
        """Import the handler now instead of with its first request."""
        self.handler = self.api.load()

    def load_tables(self, version: int) -> Table:
        """Build the tables of a version, unless they exist."""
        request, response = self.api.load_messages()
        table = request.table(version)
        self.responses[version] = response.table(version)
        self.has_tags[version] = response.has_tagged_head(version)
        self.requests[version] = table  # last: it stands for all three
        return table

    def _load_and_handle(self, *arguments):
        self.load()
        if self.api.is_preloaded:  # the request may have views of the buffer, which others reuse
            return self.handler(*arguments)
        return self._handle_later(arguments)

    async def _handle_later(self, arguments):
        """Handle the first request of an API in a later turn: the import has used this one up."""
        await LoopShare().turn()
        response = self.handler(*arguments)
        if response is None or isinstance(response, tuple):
            return response
        return await response


cdef class Gate:
    """Answers frames within the same turn; ``rare`` handles all other cases.

    `Dispatcher` holds it and passes it to each connection, so that a request makes no Python call
    except its handler. ``timer`` measures how long the turns of connections hold the loop; None
    means no measurement.
    """

    def __init__(
        self, routes: Mapping[int, Route], served: list[tuple[int, int, int] | None],
        stats: RequestStats, rare: RareRequests,
    ):
        self._routes = dict(routes)
        self._served = served
        self._rare = rare
        self.stats = stats

    cpdef dispatch(
        self, object connection: Connection, object buffer: memoryview, Py_ssize_t start,
        Py_ssize_t end, bint may_wait=False,
    ):  # -> Answer | Unwritten | LateAnswer
        """Serve the frame ``buffer[start:end]``; on return the caller may reuse it.

        A coroutine has copied what it needs, unless the frame has its own buffer. With ``may_wait``
        the caller keeps the frame until it has called `Appends.write`, and accepts an `Unwritten`
        as an answer.

        Raises:
            ProtocolError: The bytes are not a request that we serve; the connection must close.
        """
        cdef double began = perf_counter()
        cdef int key, version, correlation_id
        cdef Py_ssize_t body, position
        cdef Route route
        cdef Caller caller
        cdef RequestContext context
        cdef Unwritten unwritten
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
            request, position = read(table, buffer, body, end, route.max_elements, MOST)
            context = RequestContext.__new__(RequestContext)  # calling __init__ would cost as much as reading the request
            context.services = caller.services
            context.api_key = key
            context.version = version
            context.correlation_id = correlation_id
            context.client_id = client_id
            context.listener = caller.listener
            context.peer = caller.peer
            context.rights = caller.rights
            context.stats = self.stats
            context.connection = connection
            context.may_wait = may_wait and position >= 0
            if position < 0:
                response = self._rare.handle_large(route, context, table, buffer, body, end)
            else:
                response = route.handler(context, request)
            if isinstance(response, Unwritten):
                unwritten = response
                unwritten.gate = self
                unwritten.route = route
                unwritten.began = began
                return unwritten
            return answer(self, connection, route, context, response, began)
        except ProtocolError as error:
            self.stats.refused += 1
            raise self._rare.explain(connection, route, version, error) from error
        except Exception as error:
            raise self._rare.fault(connection, route, version, error) from error


cdef object answer(
    Gate gate, object connection, Route route, RequestContext context, object response, double began
):
    """Return the answer of a response, or the object that gives it later; step a coroutine.

    A coroutine is stepped until it waits; if it never waits, it needs no task.
    """
    cdef PyObject* got
    cdef PySendResult come
    if response is not None and not isinstance(response, tuple):
        come = PyIter_Send(response, None, &got)  # `send` would raise and catch an exception
        found = <object> got
        Py_DECREF(found)  # drop the reference that PyIter_Send has returned
        if come == PYGEN_NEXT:
            return gate._rare.wait(
                connection, route, context.version, context.correlation_id, response, found, began
            )
        response = found
    encoded = conclude(route, context, response, began, MOST)
    if encoded is None and response is not None:
        return gate._rare.answer_large(
            connection, route, context.version, context.correlation_id, response, began
        )
    return encoded


cdef object encode(Unwritten unwritten):
    """Return the bytes of the answer to a request whose batches are written or have failed.

    Raises:
        ProtocolError: The connection must close.
    """
    cdef Gate gate = unwritten.gate
    cdef Route route = unwritten.route
    cdef RequestContext context = unwritten.context
    try:
        return conclude(route, context, unwritten.answer(), unwritten.began, NO_LIMIT)
    except ProtocolError as error:
        gate.stats.refused += 1
        raise gate._rare.explain(context.connection, route, context.version, error) from error
    except Exception as error:
        raise gate._rare.fault(context.connection, route, context.version, error) from error


cdef object conclude(
    Route route, RequestContext context, object response, double began, Py_ssize_t at_once
):
    """Return the answer of a response, or None, and count the request and its error codes.

    The result is also None if the response has too many elements; the request is not counted then.
    """
    cdef list errors
    encoded = None
    if response is not None:
        errors = []
        encoded = write_response(
            route.responses[context.version], response, context.correlation_id,
            route.has_tags[context.version], errors, at_once,
        )
        if len(errors) > 1:
            route.stats.all_failed(errors)
        elif errors:
            route.stats.failed(errors[0])
        if encoded is None:
            return None
    route.stats.observe(perf_counter() - began)
    return encoded
