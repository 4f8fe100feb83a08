"""Puts a guard before the handler of each API, and the audit of its changes behind it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import Api
from siltstone.broker.process.tasks import Tasks, to_its_end
from siltstone.broker.security.gate._shortcut_kernels import Shortcut
from siltstone.broker.security.gate.changes import CHANGES
from siltstone.broker.security.gate.named import NAMED
from siltstone.broker.security.gate.rows import then
from siltstone.broker.security.principals import ANONYMOUS
from siltstone.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.audit import Audit
    from siltstone.broker.security.gate.rows import Guard, Handler
    from siltstone.broker.security.security import Security

_ANONYMOUS: Final = str(ANONYMOUS)

GUARDS: Final = {
    0: "producing.produce",
    1: "fetching.fetch",
}
"""The guard of each API, by module and function of this folder."""

LATE: Final = {1: "fetching.judge_again"}
"""The function that judges a late answer once more, likewise.

Other answers that come late tell of what the request itself has done, or of its own group.
"""


class Gatekeeper:
    """Stands before all handlers of a broker with an authorizer or an audit log (loop only)."""

    def __init__(self, security: Security, audit: Audit) -> None:
        self._security = security
        self._audit = audit
        self._changes = Tasks()

    async def finish(self) -> None:
        """Wait until the changes are made, and told, that clients have begun."""
        await self._changes.finish()

    def guard(self, api: Api) -> Api:
        """Return the row of an API whose handler has what it needs before and after it."""
        guard = "" if self._security.authorizer is None else GUARDS.get(api.key, "")
        if not guard and api.key not in CHANGES:
            return api
        own = {each.name: getattr(api, each.name) for each in fields(Api)}
        return _GuardedApi(**own, keeper=self, guard_name=guard)

    def put_before(self, key: int, guard: Guard, handler: Handler) -> Handler:
        """Return a handler that asks a guard first, once for what clients ask again and again."""
        named = NAMED.get(key)
        if named is None:
            return lambda context, request: self._ask(guard, context, request, handler)

        def ask(context: RequestContext, request: Any) -> Any:
            def go_on(context: RequestContext, allowed: Any) -> Any:
                if allowed is request:
                    shortcut.note(context, request)
                return handler(context, allowed)

            return self._ask(guard, context, request, go_on)

        shortcut = Shortcut(handler, ask, *named)
        authorizer = self._security.authorizer
        assert authorizer is not None  # noqa: S101  # without one no guard is asked
        authorizer.on_change(shortcut.forget)
        return shortcut.serve

    def judge_late(self, judge: Guard, handler: Handler) -> Handler:
        """Return a handler whose late answers are judged by the rights that the client has then."""

        def serve(context: RequestContext, request: Any) -> Any:
            answer = handler(context, request)
            if isinstance(answer, tuple):
                return answer
            return then(answer, lambda answered: self._ask(judge, context, request, answered))

        return serve

    def _ask(self, guard: Guard, context: RequestContext, request: Any, handler: Handler) -> Any:
        rights = self._security.rights_of(context.connection)
        assert rights is not None  # noqa: S101  # likewise
        return guard(rights, context, request, handler)

    def put_behind(self, api: Api, handler: Handler) -> Handler:
        """Return a handler whose changes the audit log tells, also of a client that has gone."""
        find = CHANGES[api.key]
        audit = self._audit

        def serve(context: RequestContext, request: Any) -> Any:
            client = context.connection
            principal, host = (
                (_ANONYMOUS, "") if client is None else (client.principal, client.host)
            )

            def note(answer: Any) -> Any:
                audit.changed(principal, host, api.name, list(find(request, answer)))
                return answer

            answer = then(handler(context, request), note)
            if answer is None or isinstance(answer, tuple):
                return answer
            return self._do(answer, api.name)

        return serve

    async def _do(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        return await to_its_end(self._changes.start(work, name), KafkaError, ProtocolError)


@dataclass(frozen=True, slots=True)
class _GuardedApi(Api):
    """A row of the table of APIs whose handler does not stand alone."""

    keeper: Gatekeeper | None = None
    guard_name: str = ""

    def load(self) -> Callable[..., Any]:
        """Import and return the handler, with its guard and the audit of its changes."""
        handler = Api.load(self)
        keeper = self.keeper
        assert keeper is not None  # noqa: S101
        if self.key in CHANGES:
            handler = keeper.put_behind(self, handler)
        if not self.guard_name:
            return handler
        if self.key in LATE:
            handler = keeper.judge_late(_find(LATE[self.key]), handler)
        return keeper.put_before(self.key, _find(self.guard_name), handler)


def _find(name: str) -> Any:
    """Import a function of this folder."""
    module, function = name.split(".")
    return getattr(import_module(f"siltstone.broker.security.gate.{module}"), function)
