"""InitProducerId (22), versions 0-5: ids for idempotent and transactional producers (KIP-98).

v3 id and epoch of a producer that recovers (KIP-360) · v4 fenced producers have a code of their own
(KIP-588) · v5 transactions may be aborted by error (KIP-890).

Differs from Kafka: a new transactional id above transactional.ids.max.count or
transactional.ids.max.bytes is refused with POLICY_VIOLATION; so is the first batch of an idempotent
producer if its partition already remembers producer.ids.max.count producers, or all partitions
together producer.states.max.count.
"""

from siltstone.broker.security.rights import (
    CLUSTER,
    IDEMPOTENT_WRITE,
    TOPIC,
    TRANSACTIONAL_ID,
    TWO_PHASE_COMMIT,
    WRITE,
)
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.initialising import Expected
from siltstone.protocol import errors
from siltstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_NONE = -1
_FIRST_WITH_FENCED = 4


async def init_producer_id(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out a new id with epoch 0, or the next epoch of a transactional id."""
    refusal = _find_refusal(context, request)
    if refusal is not None:
        return InitProducerIdResponse(error_code=refusal.code, producer_epoch=_NONE)
    try:
        if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
            raise errors.InvalidRequest("producer id and epoch are given together or not at all")
        producer_id, epoch = await _find_producer(context, request)
    except errors.KafkaError as error:
        return InitProducerIdResponse(
            error_code=_code_of(error, context.version), producer_epoch=_NONE
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _find_refusal(
    context: RequestContext, request: InitProducerIdRequest
) -> errors.KafkaError | None:
    """Return why the client gets no id; it needs the right to its transactional id, or to write."""
    name, rights = request.transactional_id, context.rights
    if rights is None:
        return None
    if name is None:
        may = rights.sees(IDEMPOTENT_WRITE, CLUSTER) or rights.may_any(WRITE, TOPIC)
        return None if may else errors.ClusterAuthorizationFailed()
    may = rights.may(WRITE, TRANSACTIONAL_ID, name) and (
        not request.enable2_pc or rights.may(TWO_PHASE_COMMIT, TRANSACTIONAL_ID, name)
    )
    return None if may else errors.TransactionalIdAuthorizationFailed()


async def _find_producer(
    context: RequestContext, request: InitProducerIdRequest
) -> tuple[int, int]:
    """Return producer id and epoch; without a transactional id other fields are ignored."""
    if request.transactional_id is None:
        return await context.services.producer_ids.allocate(), 0
    expected = None
    if request.producer_id != _NONE:
        expected = Expected(request.producer_id, request.producer_epoch)
    transactions = context.services.transactions()
    begun = await transactions.initialise(
        request.transactional_id, expected, request.transaction_timeout_ms
    )
    await transactions.journal.flush(transactions.take_unflushed(request.transactional_id))
    return begun.producer_id, begun.producer_epoch


def _code_of(error: errors.KafkaError, version: int) -> errors.ErrorCode:
    """Return the code of a refusal: older versions get another code for the same error."""
    if isinstance(error, errors.ProducerFenced) and version < _FIRST_WITH_FENCED:
        return errors.InvalidProducerEpoch.code
    return error.code
