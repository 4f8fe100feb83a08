from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

from siltstone.broker.process.request_stats import RequestStats
from siltstone.broker.security.quotas.rates import Mutations
from siltstone.broker.security.rights import Rights

_S = TypeVar("_S")
"""The services: `broker.services` says which, and handlers import their `RequestContext` there."""

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

class Caller(Generic[_S]):
    client_id: str | None
    listener: str
    peer: str
    rights: Rights | None
    services: _S
    def __init__(self, services: _S, listener: str, peer: str) -> None: ...

class RequestContext(Generic[_S]):
    connection: Connection | None
    services: _S
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer: str
    rights: Rights | None
    mutations: Mutations | None
    stats: RequestStats
    may_wait: bool
    def __init__(
        self,
        *,
        services: _S,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        listener: str,
        peer: str,
        stats: RequestStats,
        connection: Connection | None = None,
    ) -> None: ...
    @property
    def advertised(self) -> tuple[str, int]: ...
    def may(self, operation: int, resource: int, name: str = ...) -> bool: ...
    def sees(self, operation: int, resource: int, name: str = ...) -> bool: ...
    def take_partitions(self, count: int) -> None: ...

class Unwritten:
    context: RequestContext[Any]
    def __init__(self, context: RequestContext[Any]) -> None: ...
    def answer(self) -> Any: ...
