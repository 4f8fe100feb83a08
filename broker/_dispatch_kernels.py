"""What every request passes, compiled by Cython, or plain Python as it stands.

The types of C stand in ``_dispatch_kernels.pxd``; import `broker.dispatch_kernels`, which chooses.
"""

from time import perf_counter
from typing import TYPE_CHECKING, Any

from protocol.errors import ProtocolError

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.kernels import read_head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.answers import Answer, Waiting
    from broker.api import Api
    from broker.connection import Connection
    from broker.request_stats import ApiStats, RequestStats
    from protocol.messages import Message

COMPILED: bool = cython.compiled

# 1-2.5-5 steps from 50 us, where a small produce ends, to 5 s, beyond every long poll by default.
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


class Route:
    """One row of the table at run time: its handler, once imported, and its figures.

    A raw handler takes the frame itself and writes the answer.
    """

    __slots__ = (
        "api",
        "first_flexible",
        "handler",
        "highest",
        "is_raw",
        "lowest",
        "messages",
        "stats",
    )

    def __init__(self, api: "Api", first_flexible: int, is_raw: bool, stats: "ApiStats") -> None:
        self.api = api
        self.stats = stats
        self.lowest = api.versions.start
        self.highest = api.versions.stop - 1
        self.first_flexible = first_flexible
        self.is_raw = is_raw
        self.messages: tuple[Message, Message] | None = None
        self.handler: Callable[..., Any] = self._load_and_handle

    def load(self) -> None:
        """Import the handler now instead of with its first request."""
        self.handler = self.api.load()

    def _load_and_handle(self, *arguments: Any) -> Any:
        self.load()
        return self.handler(*arguments)


class Gate:
    """From a frame to who serves it; what follows is said by the class that builds on it.

    ``head`` is where the request begins that is being served, behind its size: a raw handler that
    needs more of the head than its numbers finds it there until it returns.
    """

    __slots__ = ("_routes", "head", "stats")

    def __init__(self, routes: "Mapping[int, Route]", stats: "RequestStats") -> None:
        self._routes = dict(routes)
        self.head = 0
        self.stats = stats

    def dispatch(
        self, connection: "Connection", buffer: memoryview, start: int, end: int
    ) -> "Answer | Waiting":
        """Serve the frame ``buffer[start:end]``, which is the caller's again on return.

        A coroutine, too, has taken what it needs out of the buffer, unless the frame has a buffer
        of its own.

        Raises:
            ProtocolError: These bytes are no request that we serve; the connection must close.
        """
        began = perf_counter()
        self.head = start
        key, version, correlation_id, body = read_head(buffer, start, end)
        route = self._routes.get(key)
        if route is None or version < route.lowest or version > route.highest:
            return self._refuse_version(key, version, correlation_id)
        try:
            if route.is_raw:
                if body < 0 or version < route.first_flexible:
                    body = self._read_head(connection, route, version, buffer, start, end)
                reply = route.handler(connection, version, correlation_id, buffer, body, end)
            else:
                reply = self._handle(connection, route, version, buffer, start, end)
        except ProtocolError as error:
            self.stats.refused += 1
            if body >= 0:  # it was not read for the client's id, which is told now
                self._read_head(connection, route, version, buffer, start, end)
            raise self._explain(connection, route, version, error) from error
        except Exception as error:
            if body >= 0:
                self._read_head(connection, route, version, buffer, start, end)
            raise self._fault(connection, route, version, error) from error
        if reply is None or isinstance(reply, (bytes, list)):
            route.stats.observe(perf_counter() - began)
            return reply
        return self._wait(connection, route, version, reply, began)

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> "Answer":
        """Answer, or close on, a version or an API that is not served."""
        raise NotImplementedError

    def _read_head(
        self,
        connection: "Connection",
        route: Route,
        version: int,
        buffer: memoryview,
        start: int,
        end: int,
    ) -> int:
        """Read any head, and return where the body begins."""
        raise NotImplementedError

    def _handle(
        self,
        connection: "Connection",
        route: Route,
        version: int,
        buffer: memoryview,
        start: int,
        end: int,
    ) -> "Answer | Waiting":
        """Decode to the newest entity, handle, and encode in the version asked."""
        raise NotImplementedError

    def _wait(
        self,
        connection: "Connection",
        route: Route,
        version: int,
        reply: "Waiting",
        began: float,
    ) -> "Waiting":
        """Return what answers later."""
        raise NotImplementedError

    def _explain(
        self, connection: "Connection", route: Route, version: int, error: ProtocolError
    ) -> ProtocolError:
        """Say of whom and what an undecodable request was."""
        raise NotImplementedError

    def _fault(
        self, connection: "Connection", route: Route, version: int, error: Exception
    ) -> ProtocolError:
        """Report a fault of ours."""
        raise NotImplementedError
