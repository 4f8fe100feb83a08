"""Sends requests of a user to a handler, and returns the answers as clients read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from inspect import isawaitable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.api import BY_KEY
from siltstone.broker.security.acl import (
    WILDCARD,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from siltstone.broker.security.audited_changes import Changes
from siltstone.config.security import STANDARD_AUTHORIZER
from siltstone.protocol.core import Grid
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.ask import read_answer
from tests.support.services import ServicesOnDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from siltstone.broker.security.authorizer import Authorizer
    from siltstone.broker.services import RequestContext

HOST = "192.0.2.7"
DENIED = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
}


class Guarded:
    """A broker with an authorizer; its super user is User:admin."""

    def __init__(self, root: Path) -> None:
        self.home = ServicesOnDisk(
            root, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"
        )
        self._handlers: dict[int, Callable[..., Any]] = {}

    async def open(self) -> Guarded:
        """Start it, and read its ACLs."""
        await self.home.open()
        self.home.services.security.load(self.home.services.settings.server)
        return self

    async def close(self) -> None:
        """Stop it."""
        await self.home.close()
        self.home.services.security.close()

    @property
    def authorizer(self) -> Authorizer:
        """Its rules."""
        found = self.home.services.security.authorizer
        assert found is not None
        return found

    def allow(self, operation: Operation, kind: ResourceType, name: str = WILDCARD) -> None:
        """Let bob do something."""
        self.authorizer.add([rule(operation, kind, name)])

    @property
    def changes(self) -> Changes:
        """The changes in its audit log."""
        security = self.home.services.security
        assert security.audit is not None
        return Changes(security.audit)

    def context(
        self, key: int, version: int | None = None, who: str = "User:bob"
    ) -> RequestContext:
        """Return the context of a user's request."""
        context = self.home.context(key, version)
        self.ask_from(context, who, HOST)
        return context

    def ask_from(self, context: RequestContext, who: str, host: str) -> None:
        """Return the context with another user as the client."""
        context.connection = SimpleNamespace(principal=who, host=host, login_seconds=math.inf)
        context.rights = self.home.services.security.rights_of(context.connection)

    async def ask(
        self, key: int, request: Any, version: int | None = None, who: str = "User:bob"
    ) -> Any:
        """Return the answer as a client of that version, or of the newest, reads it."""
        return await self.answer(self.context(key, version, who), request)

    async def answer(self, context: RequestContext, request: Any) -> Any:
        """Return the answer to a request with this context."""
        key = context.api_key
        handler = self._handlers.get(key)
        if handler is None:
            handler = self._handlers[key] = self.changes.follow(BY_KEY[key]).load()
        answer = handler(context, request)
        response: Any = await answer if isawaitable(answer) else answer
        answered = BY_KEY[key].load_messages()[1]
        frame: Any = answered.respond(context.version, 1, response)
        frame = frame if isinstance(frame, bytes) else b"".join(map(bytes, frame))
        return read_answer(key, context.version, frame)


def a_guarded(topics: str, partitions: int = 1, *, coordinates: bool = False) -> Any:
    """Return a fixture: a broker without rules, with topics of one letter, maybe with group g."""

    @pytest.fixture
    async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
        started = await Guarded(tmp_path / "home").open()
        for name in topics:
            await started.home.services.topics.create(name, partitions, {})
        if coordinates:
            await started.ask(10, FindCoordinatorRequest(coordinator_keys=["g"]), who="User:admin")
        yield started
        await started.close()

    return guarded


def rule(
    operation: Operation,
    kind: ResourceType,
    name: str = WILDCARD,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:bob",
    host: str = WILDCARD,
) -> Acl:
    """Return a rule about one name, or all."""
    return Acl(Pattern(kind, PatternType.LITERAL, name), principal, host, operation, permission)


def made(struct: Any, topic_id: bytes) -> Any:
    """Return a request with the name ``x`` for each topic, group or other resource."""
    values = {}
    for name, hint in get_type_hints(struct, include_extras=False).items():
        value = _made(hint, topic_id)
        values[name] = struct._field_defaults[name] if value is None else value
        if name.endswith("topic_id"):
            values[name] = topic_id
    return struct(**values)


def _made(hint: Any, topic_id: bytes) -> Any:
    origin = get_origin(hint)
    if origin is Sequence:
        (inner,) = get_args(hint)
        return [0 if inner is int else _made(inner, topic_id)]
    if origin is not None:
        return _made(next(each for each in get_args(hint) if each is not type(None)), topic_id)
    if hasattr(hint, "_fields"):
        return made(hint, topic_id)
    return "x" if hint is str else None


def codes_in(value: Any) -> Iterator[int]:
    """Yield every error code of an answer."""
    if isinstance(value, ErrorCode):
        yield value
    elif hasattr(value, "_fields"):
        for name, each in zip(value._fields, value, strict=True):
            yield from [each] if name == "error_code" else codes_in(each)
    elif isinstance(value, tuple | list | Grid):
        for each in value:
            yield from codes_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from codes_in(getattr(value, name))
