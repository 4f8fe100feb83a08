"""The guard of Produce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate._shortcut_kernels import is_transactional
from siltstone.broker.security.gate.rows import (
    MESSAGES,
    TOPIC,
    TRANSACTION,
    ByRow,
    Handler,
    Rows,
)
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from siltstone.protocol.topic_key import FIRST_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights
    from siltstone.protocol.messages.produce import ProduceRequest, TopicProduceData

_IN_TRANSACTION, _WRITE = REQUIREMENTS[0]


def _refuse(code: int) -> Callable[[TopicProduceData], TopicProduceResponse]:
    def refuse(row: TopicProduceData) -> TopicProduceResponse:
        return TopicProduceResponse(
            row.name,
            row.topic_id,
            [
                PartitionProduceResponse(
                    each[0], code, base_offset=-1, error_message=MESSAGES[code]
                )
                for each in row.partition_data
            ],
        )

    return refuse


_TOPICS: Final = ByRow(
    _WRITE,
    Rows("topic_data", "responses", ProduceResponse),
    _refuse(TOPIC),
    first_by_id=FIRST_WITH_TOPIC_ID,
)


def produce(
    rights: Rights, context: RequestContext, request: ProduceRequest, handler: Handler
) -> Any:
    """Have appended what may be; a transactional batch needs the right to its transaction, too."""
    if is_transactional(request.topic_data):
        name = request.transactional_id
        if name is None or not rights.may(*_IN_TRANSACTION[:2], name):
            if request.acks == 0:
                raise _closing("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
            return _TOPICS.refuse_all(request, _refuse(TRANSACTION))
    if request.acks:
        return _TOPICS.guard(rights, context, request, handler)
    refused = _TOPICS.find_refused(rights, context, request)
    if not refused:
        return handler(context, request)
    if len(refused) == len(request.topic_data):
        raise _closing("TOPIC_AUTHORIZATION_FAILED")
    return _close_after(handler(context, _TOPICS.rows.without(request, refused)))


async def _close_after(answer: Coroutine[Any, Any, Any] | None) -> None:
    """Close the connection, which is the only way to refuse something with acks=0.

    What may be appended has been, or is first.
    """
    if answer is not None:
        await answer
    raise _closing("TOPIC_AUTHORIZATION_FAILED")


def _closing(error: str) -> ProtocolError:
    return ProtocolError(f"acks=0 and the request failed with {error}")
