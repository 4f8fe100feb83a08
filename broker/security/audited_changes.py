"""Writes changes to the audit log: the names in a request that has succeeded, never a value.

A change that the audit log records is completed even if its client has disconnected.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import Api
from siltstone.broker.context import RequestContext
from siltstone.broker.process.tasks import Tasks, to_its_end
from siltstone.broker.security.acl import Operation, PatternType, Permission, ResourceType
from siltstone.broker.security.principals import ANONYMOUS
from siltstone.broker.security.scram import MECHANISM_BY_CODE
from siltstone.broker.topics.settings.resources import ResourceType as ConfigType
from siltstone.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from siltstone.broker.security.audit import Audit

    Handler = Callable[[Any, Any], Any]
    Change = dict[str, Any]

_ANONYMOUS: Final = str(ANONYMOUS)
_MAX_NAMES: Final = 100
_CONFIGS: Final = {each.value: each.name for each in ConfigType}


def _rows(resource: str, rows: str, name: str = "name") -> Callable[[Any, Any], Iterator[Change]]:
    """Return a function that finds the rows of an answer that have no error code."""

    def find(_: Any, answer: Any) -> Iterator[Change]:
        for row in getattr(answer, rows):
            if not row.error_code:
                yield {"resource": resource, "name": getattr(row, name)}

    return find


def _records(_: Any, answer: Any) -> Iterator[Change]:
    for row in answer.topics:
        partitions = [each[0] for each in row.partitions if not each[2]]
        if partitions:
            yield {"resource": "TOPIC", "name": row.name, "partitions": partitions[:_MAX_NAMES]}


def _offsets(request: Any, answer: Any) -> Iterator[Change]:
    for row in answer.topics:
        if not all(each.error_code for each in row.partitions):
            yield {"resource": "GROUP", "name": request.group_id, "topic": row.name}


def _configs(request: Any, answer: Any) -> Iterator[Change]:
    done = {
        (row.resource_type, row.resource_name) for row in answer.responses if not row.error_code
    }
    for kind, name, configs in request.resources:
        if (kind, name) in done:
            settings = [each.name for each in configs][:_MAX_NAMES]
            yield {"resource": _CONFIGS.get(kind, str(kind)), "name": name, "settings": settings}


def _created_acls(request: Any, answer: Any) -> Iterator[Change]:
    for row, result in zip(request.creations, answer.results, strict=True):
        if not result.error_code:
            yield _acl(row[0], row[1], row[2], *row[3:])


def _deleted_acls(_: Any, answer: Any) -> Iterator[Change]:
    for result in answer.filter_results:
        for row in result.matching_acls:
            yield _acl(*row[2:])


def _acl(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> Change:
    return {
        "resource": ResourceType(kind).name,
        "name": name,
        "pattern": PatternType(pattern).name,
        "for": principal,
        "from": host,
        "operation": Operation(operation).name,
        "permission": Permission(permission).name,
    }


def _users(request: Any, answer: Any) -> Iterator[Change]:
    done = {row.user for row in answer.results if not row.error_code}
    for what, rows in (("delete", request.deletions), ("set", request.upsertions)):
        for row in rows:
            if row.name in done:
                mechanism = MECHANISM_BY_CODE.get(row.mechanism)
                name = None if mechanism is None else mechanism.name
                yield {"resource": "USER", "name": row.name, "mechanism": name, "action": what}


def _quotas(request: Any, answer: Any) -> Iterator[Change]:
    done = {frozenset(map(tuple, row.entity)) for row in answer.entries if not row.error_code}
    for row in request.entries:
        if frozenset(map(tuple, row.entity)) in done:
            settings = [op[0] for op in row.ops][:_MAX_NAMES]
            yield {"resource": "QUOTA", "name": dict(row.entity), "settings": settings}


def _features(request: Any, answer: Any) -> Iterator[Change]:
    if not answer.error_code:
        for row in request.feature_updates:
            yield {"resource": "FEATURE", "name": row[0], "level": row[1]}


CHANGES: Final[dict[int, Callable[[Any, Any], Iterator[Change]]]] = {
    19: _rows("TOPIC", "topics"),
    20: _rows("TOPIC", "responses"),
    21: _records,
    30: _created_acls,
    31: _deleted_acls,
    33: _configs,
    37: _rows("TOPIC", "results"),
    42: _rows("GROUP", "results", "group_id"),
    44: _configs,
    47: _offsets,
    49: _quotas,
    51: _users,
    57: _features,
}
"""By API, what finds the changes in a request and its answer."""


class Changes:
    """The changes by clients that the audit log records (loop only)."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._tasks = Tasks()

    async def finish(self) -> None:
        """Wait until the changes that clients have begun are completed and recorded."""
        await self._tasks.finish()

    def follow(self, api: Api) -> Api:
        """Return the row of an API with a handler whose changes are recorded."""
        if api.key not in CHANGES:
            return api
        return _FollowedApi(**{each.name: getattr(api, each.name) for each in fields(Api)}, to=self)

    def tell(self, api: Api, handler: Handler) -> Handler:
        """Return a handler whose changes are recorded."""
        find = CHANGES[api.key]

        def serve(context: RequestContext[Any], request: Any) -> Any:
            client = context.connection
            principal, host = (
                (_ANONYMOUS, "") if client is None else (client.principal, client.host)
            )

            def note(answer: Any) -> Any:
                if not getattr(request, "validate_only", False):
                    self._audit.changed(principal, host, api.name, list(find(request, answer)))
                return answer

            async def note_later(work: Coroutine[Any, Any, Any]) -> Any:
                return note(await work)

            answer = handler(context, request)
            if isinstance(answer, tuple):
                return note(answer)
            return self._make(note_later(answer), api.name)

        return serve

    async def _make(self, change: Coroutine[Any, Any, Any], name: str) -> Any:
        return await to_its_end(self._tasks.start(change, name), KafkaError, ProtocolError)


@dataclass(frozen=True, slots=True)
class _FollowedApi(Api):
    """A row of the table of APIs with a handler whose changes are recorded."""

    to: Changes | None = None

    def load(self) -> Handler:
        """Import and return the handler, whose changes are recorded."""
        assert self.to is not None  # noqa: S101
        return self.to.tell(self, Api.load(self))
