"""All transactional ids of this broker (Kafka: TransactionCoordinator, TransactionStateManager).

What is decided is in ``__transaction_state`` before anybody sees it. The end of a transaction is
three steps, of which each can be repeated after a crash: the prepared state is written, from which
on the outcome stands; its markers are written to all partitions; the completed state is written.
On one node that is some appends to the page cache, so all three are done before a client is
answered, unless a disk refuses or there are too many partitions: `settle` goes on later.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.transactions import ending, initialising
from broker.transactions.markers import Outcome
from broker.transactions.transaction import (
    PREPARED,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    verify_partition,
)
from protocol.coordinator.transaction_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    ProtocolError,
    TransactionalIdNotFound,
)
from protocol.records.journal import EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.coordinator_log import CoordinatorLog
    from broker.features import Features
    from broker.producer_ids import ProducerIds
    from broker.settings import BrokerSettings
    from broker.transactions.ending import End
    from broker.transactions.initialising import Expected
    from broker.transactions.markers import MarkerWriter
    from protocol.records.journal import Entry
    from storage.clock import Clock

log = logging.getLogger(__name__)

_INLINE_MARKERS: Final = 256
_SLICE: Final = 128
_COORDINATOR_EPOCH: Final = 0
"""Nobody else ever coordinates, so it never grows."""


class TransactionCoordinator:
    """The transactional ids and their transactions (loop only).

    ``_transactions`` is what the journal says, never ahead of it. ``_active`` are the ids that
    time-outs and unfinished ends are looked for in: those with an open or prepared transaction.
    ``ended`` and ``refused_count`` are for metrics.
    """

    def __init__(
        self,
        journal: CoordinatorLog,
        markers: MarkerWriter,
        producer_ids: ProducerIds,
        settings: BrokerSettings,
        features: Features,
        clock: Clock,
    ) -> None:
        self.journal = journal
        self.markers = markers
        self.ended = {"commit": 0, "abort": 0, "timeout": 0}
        self.refused_count = 0
        self._producer_ids = producer_ids
        self._settings = settings
        self._features = features
        self._clock = clock
        self._transactions: dict[str, Transaction] = {}
        self._active: set[str] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._settled_slowly: set[str] = set()

    def __len__(self) -> int:
        return len(self._transactions)

    @property
    def active_count(self) -> int:
        """How many transactions are open, or decided and not completed."""
        return len(self._active)

    def late_since(self, patience_ms: int) -> int:
        """Return the time since which no transaction may have been silent."""
        longest_ms = self._settings.server.transaction_max_timeout_ms
        return self._clock.now_ms() - longest_ms - patience_ms

    @property
    def version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self._features.level("transaction.version")

    @property
    def verifies_appends(self) -> bool:
        """Whether appends of older clients are held against their transactions."""
        return self._settings.server.transaction_partition_verification_enable

    @property
    def must_flush(self) -> bool:
        """Whether ``flush.messages`` asks for fsyncs before anybody is answered."""
        return bool(self.journal.unflushed or self.markers.unflushed)

    async def flush(self) -> None:
        """Wait for those fsyncs.

        Raises:
            NotCoordinator: What was written may not be on the disk.
        """
        await self.markers.flush()
        await self.journal.flush()

    async def initialise(
        self, transactional_id: str, expected: Expected | None, timeout_ms: int
    ) -> Transaction:
        """Begin the next epoch of an id, for a producer that starts or recovers.

        Raises:
            InvalidRequest: The id is empty.
            InvalidTransactionTimeout: It is not in the range that the broker allows.
            ConcurrentTransactions: A transaction has to end first; this call may have ended it.
            ProducerFenced: The producer has been replaced.
            CoordinatorLoadInProgress: The journal is being read. Likewise its other refusals.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        longest_ms = self._settings.server.transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest_ms:
            raise InvalidTransactionTimeout(
                f"a time-out of {timeout_ms} ms is not from 1 to {longest_ms}, "
                "which is transaction.max.timeout.ms"
            )
        await self.journal.ensure_created()
        before = self._find(transactional_id)
        new_producer_id = -1
        if before is None or initialising.takes_new_id(before, expected):
            new_producer_id = await self._producer_ids.allocate()
            before = self._find(transactional_id)
        now_ms = self._clock.now_ms()
        if before is None:
            after = initialising.begin(new_producer_id, timeout_ms, now_ms)
        elif new_producer_id < 0 and initialising.takes_new_id(before, expected):
            raise ConcurrentTransactions  # others have used the epochs up since we looked
        else:
            after = initialising.initialise(
                before,
                expected,
                timeout_ms,
                new_producer_id=new_producer_id,
                version=self.version,
                now_ms=now_ms,
            )
        self._write(transactional_id, after)
        if after.state in PREPARED:
            self._complete(transactional_id)
            raise ConcurrentTransactions
        return after

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        client_version: int,
    ) -> None:
        """Make partitions part of the open transaction; the first opens it.

        Raises:
            KafkaError: See `transaction.add_partitions` and the journal.
        """
        before = self._find(transactional_id)
        after = add_partitions(
            before,
            producer_id,
            epoch,
            partitions,
            client_version=client_version,
            now_ms=self._clock.now_ms(),
        )
        if after is not before:
            self._write(transactional_id, after)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]
    ) -> None:
        """Check that a producer may append to a partition now.

        Raises:
            KafkaError: See `transaction.verify_partition` and the journal.
        """
        verify_partition(self._find(transactional_id), producer_id, epoch, partition)

    async def end(self, transactional_id: str, end: End) -> Transaction:
        """End a transaction of which `end_at_once` has to wait for a producer id."""
        return self._end(transactional_id, end, await self._producer_ids.allocate())

    def end_at_once(self, transactional_id: str, end: End) -> Transaction | None:
        """End a transaction and return what the producer goes on with; None: await `end`.

        Raises:
            KafkaError: See `ending.end_transaction` and the journal.
        """
        transaction = self._find(transactional_id)
        if transaction is not None and ending.takes_new_id(transaction, end):
            return None
        return self._end(transactional_id, end, -1)

    def _end(self, transactional_id: str, end: End, new_producer_id: int) -> Transaction:
        before = self._find(transactional_id)
        if new_producer_id < 0 and before is not None and ending.takes_new_id(before, end):
            raise ConcurrentTransactions
        now_ms = self._clock.now_ms()
        after = ending.end_transaction(before, end, new_producer_id=new_producer_id, now_ms=now_ms)
        if after is before:
            return after
        self._write(transactional_id, after)
        self.ended["commit" if end.is_commit else "abort"] += 1
        self._complete(transactional_id)
        return complete(after, now_ms)

    def describe(self, transactional_id: str) -> Transaction:
        """Return what is known of an id.

        Raises:
            InvalidRequest: The id is empty.
            TransactionalIdNotFound: It is unknown.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        found = self._find(transactional_id)
        if found is None:
            raise TransactionalIdNotFound
        return found

    def list_all(self) -> Iterator[tuple[str, Transaction]]:
        """Return every transactional id.

        Raises:
            CoordinatorLoadInProgress: Some are not read yet.
        """
        if self.journal.loading_count:
            raise CoordinatorLoadInProgress
        return iter(self._transactions.items())

    def abort_timed_out(self) -> None:
        """Abort what is open for too long, which fences its producer."""
        now_ms = self._clock.now_ms()
        for transactional_id in list(self._active):
            transaction = self._transactions[transactional_id]
            if not transaction.is_timed_out(now_ms):
                continue
            log.info(
                "transaction timed out transactional_id=%s producer=%d epoch=%d timeout_ms=%d",
                transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.timeout_ms,
            )
            try:
                fenced = ending.fence(transaction, version=self.version, now_ms=now_ms)
                self._write(transactional_id, fenced)
            except KafkaError as error:
                log.warning(
                    "transaction is not aborted yet transactional_id=%s reason=%s",
                    transactional_id,
                    error,
                )
            else:
                self.ended["timeout"] += 1
                self._complete(transactional_id)

    def settle(self) -> None:
        """Complete what is prepared and was not completed, because of a disk or a crash."""
        for transactional_id in list(self._active - self._settled_slowly):
            if self._transactions[transactional_id].state in PREPARED:
                self._complete(transactional_id)

    async def remove_expired(self) -> None:
        """Forget the ids that nobody has used for ``transactional.id.expiration.ms``."""
        expiration_ms = self._settings.server.transactional_id_expiration_ms
        now_ms = self._clock.now_ms()
        for count, transactional_id in enumerate(list(self._transactions), 1):
            if not count % _SLICE:
                await asyncio.sleep(0)
            transaction = self._transactions.get(transactional_id)
            if transaction is None or not transaction.is_expired(now_ms, expiration_ms):
                continue
            partition = self.journal.partition_for(transactional_id)
            try:
                self.journal.check(partition)
                self.journal.append(partition, [(encode_key(transactional_id), None)])
            except KafkaError as error:
                log.warning(
                    "transactional id is not removed yet transactional_id=%s reason=%s",
                    transactional_id,
                    error,
                )
            else:
                del self._transactions[transactional_id]

    async def load(self) -> None:
        """Read the journal back and carry out what it says was decided."""
        await self.journal.load(self._apply, self._loaded)

    async def run(self) -> None:
        """Look after time-outs and expiry until cancelled."""
        clock = self._clock
        removed_at = clock.monotonic()
        while True:
            server = self._settings.server
            abort_ms = server.transaction_abort_timed_out_transaction_cleanup_interval_ms
            remove_ms = server.transaction_remove_expired_transaction_cleanup_interval_ms
            await asyncio.sleep(min(abort_ms, remove_ms) / 1000)
            self.settle()
            self.abort_timed_out()
            if clock.monotonic() - removed_at >= remove_ms / 1000:
                removed_at = clock.monotonic()
                await self.remove_expired()

    async def close(self) -> None:
        """Wait for the markers that are being written."""
        while self._settling:
            await asyncio.wait(self._settling)

    def _find(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id, None if nobody has used it.

        Raises:
            CoordinatorLoadInProgress: What is known of it is not read yet.
        """
        found = self._transactions.get(transactional_id)
        if found is None or self.journal.loading_count:
            self.journal.check(self.journal.partition_for(transactional_id))
        return found

    def _write(self, transactional_id: str, transaction: Transaction) -> None:
        """Write the next state of an id, and publish it.

        Raises:
            KafkaError: The journal does not take it; nothing has changed.
        """
        value = encode_value(transaction.logged, min(self.version, 1))
        partition = self.journal.partition_for(transactional_id)
        self.journal.append(partition, [(encode_key(transactional_id), value)])
        self._publish(transactional_id, transaction)

    def _publish(self, transactional_id: str, transaction: Transaction) -> None:
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING or transaction.state in PREPARED:
            self._active.add(transactional_id)
        else:
            self._active.discard(transactional_id)

    def _complete(self, transactional_id: str) -> None:
        """Write the markers of a prepared transaction and complete it, later if need be."""
        transaction = self._transactions[transactional_id]
        if len(transaction.partitions) > _INLINE_MARKERS:
            self._settled_slowly.add(transactional_id)
            task = asyncio.get_running_loop().create_task(self._complete_slowly(transactional_id))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)
            return
        try:
            self.markers.write_all(_outcome(transaction), transaction.partitions)
            self._write(transactional_id, complete(transaction, self._clock.now_ms()))
        except KafkaError as error:
            self._say_unsettled(transactional_id, error)

    async def _complete_slowly(self, transactional_id: str) -> None:
        """Complete a transaction of very many partitions, some at a time."""
        transaction = self._transactions[transactional_id]
        outcome = _outcome(transaction)
        partitions = iter(transaction.partitions)
        try:
            while some := list(islice(partitions, _SLICE)):
                self.markers.write_all(outcome, some)
                await asyncio.sleep(0)
            self._write(transactional_id, complete(transaction, self._clock.now_ms()))
        except KafkaError as error:
            self._say_unsettled(transactional_id, error)
        finally:
            self._settled_slowly.discard(transactional_id)

    def _apply(self, partition: int, entries: list[Entry]) -> None:
        """Take what the journal says; what is no transaction is skipped with a line."""
        for entry in entries:
            if entry.kind != EntryKind.PLAIN:
                continue
            try:
                transactional_id = decode_key(entry.key)
                if transactional_id is None:
                    continue
                if entry.value is None:
                    self._transactions.pop(transactional_id, None)
                    self._active.discard(transactional_id)
                else:
                    self._publish(transactional_id, Transaction.of(decode_value(entry.value)))
            except (ProtocolError, ValueError) as error:
                log.warning(
                    "record can not be read and is skipped partition=%s-%d offset=%d reason=%s",
                    self.journal.name,
                    partition,
                    entry.offset,
                    error,
                )

    def _loaded(self, partition: int) -> None:
        """Carry out the ends that were decided in a partition that is read now."""
        for transactional_id in list(self._active):
            is_prepared = self._transactions[transactional_id].state in PREPARED
            if is_prepared and self.journal.partition_for(transactional_id) == partition:
                self._complete(transactional_id)

    def _say_unsettled(self, transactional_id: str, error: KafkaError) -> None:
        log.warning(
            "transaction is decided and not completed yet transactional_id=%s reason=%s",
            transactional_id,
            error,
        )


def _outcome(transaction: Transaction) -> Outcome:
    return Outcome(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is TransactionState.PREPARE_COMMIT,
        _COORDINATOR_EPOCH,
    )
