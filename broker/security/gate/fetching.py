"""The guard of Fetch: also of what a session has named in earlier requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.fetching._fetch_kernels import replica_of
from siltstone.broker.security.gate.rows import TOPIC, ByRow, Handler, Rows
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from siltstone.protocol.topic_key import FIRST_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.broker.fetching._fetch_kernels import FetchSession
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights
    from siltstone.protocol.messages.fetch import FetchRequest

_WITHOUT_SESSION: Final = -1
_AS_REPLICA, _READ = REQUIREMENTS[1]


def _refuse(name: str, topic_id: bytes, partitions: Iterable[int]) -> FetchableTopicResponse:
    rows = [PartitionData(each, TOPIC, high_watermark=-1) for each in partitions]
    return FetchableTopicResponse(name, topic_id, rows)


_TOPICS: Final = ByRow(
    _READ,
    Rows("topics", "responses", FetchResponse),
    lambda row: _refuse(row.topic, row.topic_id, (each[0] for each in row.partitions)),
    name="topic",
    first_by_id=FIRST_WITH_TOPIC_ID,
)


def fetch(rights: Rights, context: RequestContext, request: FetchRequest, handler: Handler) -> Any:
    """Have read what may be.

    A request that names all its topics is answered without a session if some of them are refused,
    so that the client names them all again and is told again. An incremental request for which
    something of the session is refused ends the session: the client then does just that.
    """
    if replica_of(request) >= 0:
        if not rights.may(*_AS_REPLICA[:2]):
            return _TOPICS.refuse_all(request)
        return handler(context, request)
    if request.session_epoch <= 0:
        return _fetch_named(rights, context, request, handler)
    session = context.rooms.sessions.sessions.get(request.session_id)
    may_read = session is None or _may_read(rights, context, session)
    if may_read and not _TOPICS.find_refused(rights, context, request):
        return handler(context, request)
    context.rooms.sessions.end(request.session_id)
    return FetchResponse(error_code=ErrorCode.fetch_session_id_not_found)


def judge_again(rights: Rights, context: RequestContext, request: FetchRequest, answer: Any) -> Any:
    """Return the part of a late answer that the client may still read.

    What a rule has forbidden meanwhile is refused as it would have been before.
    """
    if replica_of(request) >= 0:
        return answer if rights.may(*_AS_REPLICA[:2]) else _TOPICS.refuse_all(request)
    refused = {}
    for place, (name, topic_id, partitions) in enumerate(answer.responses):
        called = name or _name_of(context, topic_id)
        if called is not None and not rights.may(*_READ[:2], called):
            refused[place] = _refuse(name, topic_id, (each[0] for each in partitions))
    if not refused:
        return answer
    context.rooms.sessions.end(answer.session_id)
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.fetch_session_id_not_found)
    rows = [refused.get(place, row) for place, row in enumerate(answer.responses)]
    return answer._replace(session_id=0, responses=rows)


def _fetch_named(
    rights: Rights, context: RequestContext, request: FetchRequest, handler: Handler
) -> Any:
    refused = _TOPICS.find_refused(rights, context, request)
    if not refused:
        return handler(context, request)
    if len(refused) == len(request.topics):
        context.rooms.sessions.end(request.session_id)
    request = request._replace(session_epoch=_WITHOUT_SESSION)
    return _TOPICS.rows.serve(context, request, handler, refused)


def _may_read(rights: Rights, context: RequestContext, session: FetchSession) -> bool:
    """Return whether all of a session may still be read, by whoever asks now."""
    for key in {key for key, _ in session.partitions}:
        name = key if isinstance(key, str) else _name_of(context, key)
        if name is not None and not rights.may(*_READ[:2], name):
            return False
    return True


def _name_of(context: RequestContext, topic_id: bytes) -> str | None:
    """Return the name of a topic, None for an id that nobody has: the handler says so."""
    topic = context.rooms.topics.by_id.get(topic_id)
    return None if topic is None else topic.name
