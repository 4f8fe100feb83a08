"""Refusals beside answers: what a request names is served or refused one by one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from siltstone.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.requirements import Need
    from siltstone.broker.security.rights import Rights

Handler: TypeAlias = "Callable[[Any, Any], Any]"
Guard: TypeAlias = "Callable[[Rights, RequestContext, Any, Handler], Any]"

NEVER: Final = 1 << 15
TOPIC: Final = int(ErrorCode.topic_authorization_failed)
GROUP: Final = int(ErrorCode.group_authorization_failed)
CLUSTER: Final = int(ErrorCode.cluster_authorization_failed)
TRANSACTION: Final = int(ErrorCode.transactional_id_authorization_failed)
MESSAGES: Final = {
    TOPIC: "Topic authorization failed.",
    GROUP: "Group authorization failed.",
    CLUSTER: "Cluster authorization failed.",
    TRANSACTION: "Transactional Id authorization failed.",
}
"""What Apache Kafka says with each code."""


def then(answer: Any, change: Callable[[Any], Any]) -> Any:
    """Change an answer, now or when it is there; none (acks=0) stays none."""
    if answer is None:
        return None
    return change(answer) if isinstance(answer, tuple) else _change_later(answer, change)


async def _change_later(answer: Coroutine[Any, Any, Any], change: Callable[[Any], Any]) -> Any:
    answered = await answer
    return None if answered is None else change(answered)


def _weave(answered: Sequence[Any], refused: Mapping[int, Any], count: int) -> list[Any]:
    """Return answers and refusals in the order of the request, which has ``count`` rows.

    Where a handler answers other rows than it was asked for, the refusals come last.
    """
    if len(answered) + len(refused) != count:
        return [*answered, *refused.values()]
    served = iter(answered)
    return [refused[place] if place in refused else next(served) for place in range(count)]


def twice(names: Sequence[Any]) -> Collection[Any]:
    """Return the names that come more than once: Kafka refuses them whoever asks."""
    if len(set(names)) == len(names):
        return ()
    return {name for name, count in Counter(names).items() if count > 1}


class Rows(NamedTuple):
    """The array ``asked`` of a request, and ``answered`` of its ``response``: a row for each."""

    asked: str
    answered: str
    response: Callable[..., Any]

    def of(self, request: Any) -> Sequence[Any]:
        """Return the rows of a request; none for null."""
        return getattr(request, self.asked) or ()

    def without(self, request: Any, refused: Mapping[int, Any]) -> Any:
        """Return a request without the rows at the places that are refused."""
        served = [row for place, row in enumerate(self.of(request)) if place not in refused]
        return request._replace(**{self.asked: served})

    def serve(
        self, context: RequestContext, request: Any, handler: Handler, refused: Mapping[int, Any]
    ) -> Any:
        """Have served what is not refused; the refusals, by their places, go into the answer."""
        if not refused:
            return handler(context, request)
        count = len(self.of(request))
        if len(refused) == count:
            return self.refuse(refused.values())
        return then(
            handler(context, self.without(request, refused)),
            lambda answer: self.join(answer, refused, count),
        )

    def join(self, answer: Any, refused: Mapping[int, Any], count: int) -> Any:
        """Return an answer with the refusals in it; what is compiled answers by bare tuples."""
        if type(answer) is tuple:
            answer = self.response(*answer)
        rows = _weave(getattr(answer, self.answered), refused, count)
        return answer._replace(**{self.answered: rows})

    def refuse(self, refusals: Iterable[Any]) -> Any:
        """Return an answer of refusals only."""
        return self.response(**{self.answered: list(refusals)})


class ByRow(NamedTuple):
    """A guard of a request whose ``rows`` name resources.

    ``make_refusal`` makes a refusal of a row. From the version ``first_by_id`` on rows name topics
    by their ids; one that nobody knows is left to the handler, which says so. Of the names,
    ``faulty`` returns those that the handler refuses whoever asks.
    """

    need: Need
    rows: Rows
    make_refusal: Callable[[Any], Any]
    name: str = "name"
    first_by_id: int = NEVER
    faulty: Callable[[Sequence[Any]], Collection[Any]] | None = None

    def find_refused(self, rights: Rights, context: RequestContext, request: Any) -> dict[int, Any]:
        """Return refusals, by place, of the rows that the client may not name."""
        rows = self.rows.of(request)
        refused: dict[int, Any] = {}
        known = context.rooms.topics.by_id if context.version >= self.first_by_id else None
        may, need = rights.may, self.need
        faulty = self.faulty and self.faulty([getattr(row, self.name) for row in rows])
        for place, row in enumerate(rows):
            if known is None:
                name = getattr(row, self.name)
            else:
                topic = known.get(row.topic_id)
                if topic is None:
                    continue
                name = topic.name
            if not may(*need[:2], name) and not (faulty and name in faulty):
                refused[place] = self.make_refusal(row)
        return refused

    def guard(self, rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
        """Have served what may be, and refuse the rest beside it."""
        refused = self.find_refused(rights, context, request)
        return self.rows.serve(context, request, handler, refused)

    def refuse_all(self, request: Any, make_refusal: Callable[[Any], Any] | None = None) -> Any:
        """Return an answer that refuses every row."""
        return self.rows.refuse(map(make_refusal or self.make_refusal, self.rows.of(request)))
