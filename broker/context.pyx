"""The context of a request for its handler: its version, its client and the broker's services."""

from typing import TYPE_CHECKING

cimport cython

from siltstone.config.listeners import AUTO
from siltstone.protocol.names import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Generic, Protocol, TypeVar

    from siltstone.broker.process.request_stats import RequestStats
    from siltstone.broker.security.quotas.rates import Mutations
    from siltstone.broker.security.rights import Rights

    _S = TypeVar("_S")
    """The services: `broker.services` says which; handlers import their `RequestContext` there."""

    class Login(Protocol):
        def handshake(
            self, connection: Any, version: int, mechanism: str
        ) -> Any | Coroutine[Any, Any, Any]: ...
        def authenticate(self, connection: Any, token: bytes) -> Any | Coroutine[Any, Any, Any]: ...

    class Connection(Protocol):
        @property
        def caller(self) -> Caller[Any]: ...
        @property
        def peer(self) -> str: ...
        @property
        def client_id(self) -> str | None: ...
        @property
        def principal(self) -> str: ...
        @property
        def host(self) -> str: ...
        @property
        def reached(self) -> str: ...
        @property
        def software(self) -> tuple[str, str]: ...
        @property
        def login_seconds(self) -> float: ...
        def find_login(self) -> Login | None: ...
        def note_software(self, name: str, version: str) -> None: ...
        def note_refused_handshake(self, reason: str) -> None: ...
        def at_end(self, name: str, action: Callable[[], None]) -> None: ...


@cython.final
cdef class Caller:  # type: Generic[_S]
    """The client of a connection: its address, its listener, its name and its rights.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``rights`` are None if everybody may do everything.
    """

    def __init__(self, services: _S, listener: str, peer: str):
        self.listener = listener
        self.peer = peer
        self.services = services


@cython.final
cdef class RequestContext:  # type: Generic[_S]
    """One request: its version, its client, its listener.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``stats`` are the figures of all APIs. ``connection`` is None in tests. ``rights`` are None if
    everybody may do everything. ``mutations`` are None if no quota counts them. ``may_wait`` says
    that the request's bytes stay valid until the end of the round, and that the answer may wait for
    it (`LoopRound`).
    """

    def __init__(
        self, *, services: _S, api_key: int, version: int, correlation_id: int,
        client_id: str | None, listener: str, peer: str, stats: RequestStats,
        connection: Connection | None = None,
    ):
        self.connection = connection
        self.services = services
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.peer = peer
        self.stats = stats

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port that are advertised for the listener that received the request."""
        host, port = told = self.services.advertised[self.listener]
        if host == AUTO and self.connection is not None:
            return self.connection.reached, port
        return told

    cpdef bint may(
        self, object operation: int, object resource: int, object name: str = CLUSTER_NAME
    ) except *:
        """Tell whether the client may do something; if not, the audit log says so."""
        return self.rights is None or self.rights.may(operation, resource, name)

    cpdef bint sees(
        self, object operation: int, object resource: int, object name: str = CLUSTER_NAME
    ) except *:
        """Tell the same as `may` without an audit line, for what the answer only leaves out."""
        return self.rights is None or self.rights.sees(operation, resource, name)

    def take_partitions(self, count: int):
        """Count the partitions that this request creates or deletes next, if a quota limits them.

        Raises:
            ThrottlingQuotaExceeded: The client has exceeded its quota.
        """
        if self.mutations is not None:
            self.mutations.take(count)


cdef class Unwritten:
    """A request whose batches wait to be written; its response waits for them.

    A handler may return it if ``context.may_wait`` is set. When the batches are written, or have
    failed, the `Gate` of the request calls `answer`.
    """

    def __init__(self, context: RequestContext[Any]):
        self.context = context

    cpdef answer(self):  # -> Any
        """Return the response; None if the client wants none.

        Raises:
            ProtocolError: acks=0 and a batch failed: the connection must close.
        """
        raise NotImplementedError
