"""EndTxn (26), versions 0-5: commit or abort (KIP-98).

v2 fenced producers have a code of their own (KIP-588) · v5 the answer has the producer id and epoch
of the next transaction (KIP-890).

Differs from Kafka: EndTxn of up to 256 partitions is answered when the markers are in the log, so
that a consumer that reads after a commit finds the committed records. With more partitions the
answer comes first and the markers follow, as may happen in Kafka with any number. A partition whose
only batch was refused as too large gets no marker, as it does in Kafka.
"""

from collections.abc import Coroutine
from typing import Any

from siltstone.broker.handlers.transactions import client_version_of, code_of
from siltstone.broker.security.rights import TRANSACTIONAL_ID, WRITE
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.ending import End
from siltstone.broker.transactions.transaction import Transaction
from siltstone.protocol.errors import InvalidRequest, KafkaError, TransactionalIdAuthorizationFailed
from siltstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.storage.log.log import Log


def handle(
    context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Coroutine[Any, Any, EndTxnResponse]:
    """End a transaction and answer; a coroutine if it must wait for a producer id or fsyncs."""
    transactional_id, producer_id, epoch, committed = request
    version = context.version
    if not context.may(WRITE, TRANSACTIONAL_ID, transactional_id):
        return EndTxnResponse(error_code=TransactionalIdAuthorizationFailed.code)
    wanted = End(producer_id, epoch, committed, client_version_of(version))
    transactions = context.services.transactions()
    try:
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        ended = transactions.end_at_once(transactional_id, wanted)
    except KafkaError as error:
        return EndTxnResponse(error_code=code_of(error, version))
    due = {} if ended is None else transactions.take_unflushed(transactional_id)
    if ended is None or due:
        return _end_later(context, transactional_id, wanted, ended, due)
    return EndTxnResponse(0, 0, ended.producer_id, ended.producer_epoch)


async def _end_later(
    context: RequestContext,
    transactional_id: str,
    wanted: End,
    ended: Transaction | None,
    due: dict[Log, None],
) -> EndTxnResponse:
    """End a transaction when the next one has a producer id; wait for fsyncs if settings ask.

    The end may have been in an earlier request whose fsync is under way.
    """
    transactions = context.services.transactions()
    try:
        if ended is None:
            ended = await transactions.end(transactional_id, wanted)
            due = transactions.take_unflushed(transactional_id)
        await transactions.journal.flush(due)
    except KafkaError as error:
        return EndTxnResponse(error_code=code_of(error, context.version))
    return EndTxnResponse(0, 0, ended.producer_id, ended.producer_epoch)
