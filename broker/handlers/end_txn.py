"""EndTxn (26), versions 0-5: commit or abort (KIP-98).

v2 fenced producers have a code of their own (KIP-588) · v5 the answer has the producer id and epoch
of the next transaction (KIP-890). It takes the frame itself: with transactions of some records it
is every second request.

Differs from Kafka: EndTxn is answered when the markers are in the log, not before, so that who
reads committed records after a commit finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.transactions import client_version_of, code_of
from broker.transactions.ending import End
from protocol.end_txn import API_KEY, encode, parse
from protocol.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.transactions.transaction import Transaction


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """End a transaction and answer; a coroutine if a producer id or fsyncs are waited for."""
    transactional_id, producer_id, epoch, committed = parse(version, buffer, position, end)
    wanted = End(producer_id, epoch, committed, client_version_of(version))
    answer = _EndAnswer(connection, version, correlation_id)
    transactions = connection.rooms.transactions
    try:
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        ended = transactions.end_at_once(transactional_id, wanted)
    except KafkaError as error:
        return answer.refuse(error)
    if ended is None or transactions.must_flush:
        return answer.wait(transactional_id, wanted, ended)
    return encode(version, correlation_id, 0, ended.producer_id, ended.producer_epoch)


class _EndAnswer:
    """To whom the end is answered, and in which version."""

    __slots__ = ("connection", "correlation_id", "version")

    def __init__(self, connection: Connection, version: int, correlation_id: int) -> None:
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id

    def refuse(self, error: KafkaError) -> bytes:
        """Return the answer to what was not done, and count it."""
        code = code_of(error, self.version).value
        self.connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
        return encode(self.version, self.correlation_id, code)

    async def wait(self, transactional_id: str, wanted: End, ended: Transaction | None) -> bytes:
        """End it when there is a producer id for the next, and wait for the disk if asked to."""
        transactions = self.connection.rooms.transactions
        try:
            if ended is None:
                ended = await transactions.end(transactional_id, wanted)
            await transactions.flush()
        except KafkaError as error:
            return self.refuse(error)
        return encode(self.version, self.correlation_id, 0, ended.producer_id, ended.producer_epoch)
