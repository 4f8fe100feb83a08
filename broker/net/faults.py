"""Makes requests fail or wait when a test asks for it: ``siltstone serve --test-faults``.

An API without such an order keeps its own handler, so its requests are as fast as ever.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from siltstone.broker.api import Api
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.services import RequestContext
from siltstone.protocol.core import Grid
from siltstone.protocol.core.fields import KINDS, Field
from siltstone.protocol.errors import ErrorCode, ProtocolError
from siltstone.protocol.messages import Description, Message, describe
from siltstone.protocol.messages.metadata import MetadataRequestTopic

_logger = logging.getLogger(__name__)

EXEMPT: Final = "siltstone-testing"
"""The client id of a program that prepares a test: its requests neither fail nor wait."""

_OF_FETCH_SESSIONS: Final = {
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.fetch_session_topic_id_error,
    ErrorCode.invalid_fetch_session_epoch,
}
_OF_PARTITIONS: Final = {
    ErrorCode.election_not_needed, ErrorCode.eligible_leaders_not_available,
    ErrorCode.group_subscribed_to_topic, ErrorCode.invalid_topic_exception,
    ErrorCode.no_reassignment_in_progress, ErrorCode.preferred_leader_not_available,
    ErrorCode.topic_authorization_failed, ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition, ErrorCode.unstable_offset_commit,
}  # fmt: skip
"""Errors that Kafka gives to a topic or a partition and never to a whole request, though its answer
may have a code too: clients look for them at the topic or the partition."""
_TOPIC_FIELDS: Final = {"name", "topic", "topic_id", "topic_name", "topic_names", "topics"}


class Failure:
    """An order for the next requests of an API to fail; an error of None closes the connection.

    With a topic only requests that name it, by name or id, fail.
    """

    def __init__(self, error: ErrorCode | None, times: int, topic: str | None) -> None:
        self.error = error
        self.times = times
        self._topic = topic

    def is_about(self, context: RequestContext, request: Any) -> bool:
        """Tell whether the order applies to a request."""
        if self._topic is None:
            return True
        topic = context.services.topics.topics.get(self._topic)
        wanted = {self._topic} if topic is None else {self._topic, topic.key}
        return any(name in wanted for name in _topics_of(request))


class _Trouble:
    """Makes requests of one API fail or wait, in place of its handler."""

    def __init__(self, api: Api) -> None:
        self.failures: list[Failure] = []
        self.seconds = 0.0
        self._own = api.load()
        self._api = api
        self._response: Message = api.load_messages()[1]

    def __call__(self, context: RequestContext, request: Any) -> Any:
        """Handle a request, or make it fail or wait."""
        if context.client_id == EXEMPT:
            return self._own(context, request)
        if self.seconds:
            context.may_wait = False  # the round ends before the answer
            return self._handle_later(context, _owned(request))
        return self._handle(context, request)

    async def _handle_later(self, context: RequestContext, request: Any) -> Any:
        await asyncio.sleep(self.seconds)
        response = self._handle(context, request)
        return response if response is None or isinstance(response, tuple) else await response

    def _handle(self, context: RequestContext, request: Any) -> Any:
        for failure in self.failures:
            if failure.is_about(context, request):
                answer = self._refuse(failure, context, request)
                if answer is not None:
                    return answer
        return self._own(context, request)

    def _refuse(self, failure: Failure, context: RequestContext, request: Any) -> Any:
        """Return the error answer of a request; None if the answer has no place for the error."""
        if failure.error is None or getattr(request, "acks", None) == 0:
            self._count(failure)
            raise ProtocolError("a test has asked for it")
        is_fetch = self._api.name == "Fetch" and failure.error not in _OF_FETCH_SESSIONS
        if is_fetch and request.session_id and request.session_epoch > 0:
            # This error makes the client name all partitions of its session again.
            lost = ErrorCode.fetch_session_id_not_found
            return make_error_answer(self._response, context.version, request, lost)
        code = failure.error.value
        if self._api.name == "Metadata":
            self._count(failure)
            return self._refuse_topics(context, request, code)
        if is_fetch and not request.topics:
            return None
        of_each = is_fetch or failure.error in _OF_PARTITIONS
        answer = make_error_answer(self._response, context.version, request, code, of_each=of_each)
        if answer is not None:
            self._count(failure)
        return answer._replace(session_id=0) if is_fetch and answer is not None else answer

    async def _refuse_topics(self, context: RequestContext, request: Any, code: int) -> Any:
        """Answer Metadata with the topics in error and with the broker, so that clients keep it."""
        asked = request.topics
        if asked is None:
            topics = context.services.topics.topics.values()
            asked = [MetadataRequestTopic(name=each.name, topic_id=each.key) for each in topics]
        whole = request._replace(topics=asked)
        refused = make_error_answer(self._response, context.version, whole, code, of_each=True)
        answer = self._own(context, request._replace(topics=[], allow_auto_topic_creation=False))
        if not isinstance(answer, tuple):
            answer = await answer
        return answer._replace(topics=[] if refused is None else refused.topics)

    def _count(self, failure: Failure) -> None:
        failure.times -= 1
        if failure.times <= 0:
            self.failures.remove(failure)


class Faults:
    """Makes requests fail or wait, for tests of clients (loop only)."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._troubles: dict[int, _Trouble] = {}

    def fail_next(self, api: Api, failure: Failure) -> None:
        """Make the next requests of an API fail, after those of earlier orders."""
        self._trouble_of(api).failures.append(failure)
        _logger.info("requests are to fail api=%s times=%d", api.name, failure.times)

    def slow(self, api: Api, seconds: float) -> None:
        """Make each request of an API wait ``seconds``; 0 ends the waiting."""
        self._trouble_of(api).seconds = seconds
        _logger.info("requests are to be slow api=%s seconds=%g", api.name, seconds)

    def clear(self) -> None:
        """Cancel all orders to fail or wait."""
        for key in self._troubles:
            self._dispatcher.replace_handler(key, None)
        self._troubles.clear()

    def _trouble_of(self, api: Api) -> _Trouble:
        trouble = self._troubles.get(api.key)
        if trouble is None:
            trouble = self._troubles[api.key] = _Trouble(self._dispatcher.api_of(api.key))
            self._dispatcher.replace_handler(api.key, trouble)
        return trouble


def _topics_of(value: Any) -> Iterator[str | bytes]:
    """Yield the names and ids of topics in a request."""
    if not hasattr(value, "_fields"):
        return
    for name, each in zip(value._fields, value, strict=True):
        if name in _TOPIC_FIELDS and isinstance(each, str | bytes):
            yield each
        elif isinstance(each, list | tuple) and not hasattr(each, "_fields"):
            for element in each:
                if name in _TOPIC_FIELDS and isinstance(element, str):
                    yield element
                yield from _topics_of(element)


def _owned(value: Any) -> Any:
    """Copy a request's records, since the memory of its frame is reused."""
    if isinstance(value, memoryview):
        return memoryview(bytearray(value))
    if hasattr(value, "_fields"):
        return type(value)._make(_owned(each) for each in value)
    return [_owned(each) for each in value] if isinstance(value, list) else value


_STRUCT: Final = KINDS.index("struct")
_ARRAYS: Final = (list, tuple, Grid)
_SAME: Final = (
    {"name", "topic", "topic_name"},
    {"index", "partition", "partition_index"},
    {"key", "group_id", "transactional_id"},
)
"""Groups of field names that mean the same in requests and in answers."""


def make_error_answer(
    response: Message, version: int, request: Any, code: int, *, of_each: bool = False
) -> Any:
    """Return an error response to ``request``; None if the response has no place for a code.

    A structure with its own error code gets the code and the fields that identify it in the
    request: topic, partition, group. A structure without a code answers each element of the
    request. With ``of_each`` the innermost elements that the request names get the code, for
    example partitions; an outer structure gets the code only if it names none.
    """
    answer, has_code = _fill(describe(response.struct, version), request, code, of_each=of_each)
    return answer if has_code else None


def _fill(description: Description, request: Any, code: int, *, of_each: bool) -> tuple[Any, bool]:
    struct: Any = description[0]  # a tuple of named fields
    fields = description[1]
    named = dict(zip(struct._fields, fields, strict=True))
    values = {name: value for name in named for value in _same_value(name, named[name], request)}
    errors = [
        name
        for name, field in named.items()
        if field.is_error and field.is_present and field.tag < 0
    ]
    if errors and not of_each:
        return struct(**values, **{errors[0]: code}), True
    for name, field in named.items():
        if field.is_array and field.kind == _STRUCT and field.is_present:
            elements = _elements(name, request)
            filled = [_fill(field.child, each, code, of_each=of_each) for each in elements]
            if any(has_code for _, has_code in filled):
                return struct(**values, **{name: [element for element, _ in filled]}), True
    return struct(**values, **dict.fromkeys(errors[:1], code)), bool(errors)


def _same_value(name: str, field: Field, request: Any) -> Iterator[Any]:
    """Yield the value of the request's field with the same meaning, if it has one."""
    if field.is_array or field.is_error or field.kind == _STRUCT:
        return
    kind = type(field.default)
    if not hasattr(request, "_fields"):  # an element may be a plain name or number
        if isinstance(request, kind) and any(name in names for names in _SAME):
            yield request
        return
    names = next((names for names in _SAME if name in names), {name})
    for each in (name, *sorted(names)):
        if each in request._fields:  # not hasattr: tuples have methods of such names
            value = getattr(request, each)
            if value is not None and not isinstance(value, _ARRAYS):
                yield value
                return


def _elements(name: str, request: Any) -> Sequence[Any]:
    """Return the array of the request that corresponds to an array of the answer."""
    if not hasattr(request, "_fields"):
        return ()
    arrays = {
        each: value
        for each, value in zip(request._fields, request, strict=True)
        if isinstance(value, _ARRAYS) and not hasattr(value, "_fields")
    }
    found = arrays.get(name) or next(filter(None, arrays.values()), ())
    return tuple(found)
