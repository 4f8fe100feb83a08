"""InitProducerId (22), versions 0-5: an id for an idempotent producer (KIP-98).

v3 id and epoch of a producer that recovers (KIP-360) · v4 fenced producers have a code of their own
(KIP-588) · v5 transactions may be aborted by error (KIP-890).

Differs from Kafka: transactions are not served yet. A transactional id is refused with
UNSUPPORTED_VERSION, which is not retriable: COORDINATOR_NOT_AVAILABLE, or the NOT_COORDINATOR of a
Kafka that does not coordinate that id, would be tried again for ever.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from protocol.messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    from broker.context import RequestContext

log = logging.getLogger(__name__)

_NONE = -1


async def init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out a new id with epoch 0, whatever id and time-out the client names."""
    try:
        if request.transactional_id == "":
            raise InvalidRequest("a transactional id must not be empty")
        if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
            raise InvalidRequest("producer id and epoch are given together or not at all")
        if request.transactional_id is not None:
            log.warning(
                "transactional producer refused: transactions are not served yet peer=%s client=%r",
                context.peer,
                context.client_id,
            )
            raise UnsupportedVersion("transactions are not served yet")
        producer_id = await context.rooms.producer_ids.allocate()
    except KafkaError as error:
        return InitProducerIdResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, producer_epoch=_NONE
        )
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=producer_id,
        producer_epoch=0,
    )
