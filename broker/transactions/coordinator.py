"""The requests of producers about their transactions, and timeouts (TransactionCoordinator).

A decision is written to ``__transaction_state`` before any client sees it. A transaction ends in
three steps, each of which can be repeated after a crash. First the prepared state is written, which
fixes the outcome. Then the markers are written to all partitions. Last the completed state is
written. On one node these are a few appends to the page cache, so all three steps are done before
the client is answered. If a disk refuses an append, `settle` continues later; if there are very
many partitions, a task does.
"""

import asyncio
import logging
from collections.abc import Container, Iterable
from typing import Final

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.transactions import ending, initialising
from siltstone.broker.transactions.ending import End
from siltstone.broker.transactions.initialising import Expected
from siltstone.broker.transactions.markers import MarkerWriter, Outcome
from siltstone.broker.transactions.producer_ids import ProducerIds
from siltstone.broker.transactions.states import TransactionStates
from siltstone.broker.transactions.transaction import (
    PREPARED,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    verify_partition,
)
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log

_logger = logging.getLogger(__name__)

_INLINE_MARKERS: Final = 256


class TransactionCoordinator:
    """Decides on requests and carries out the decisions (loop only).

    ``_slow`` holds the transactional ids whose markers are being written in slices; ``_tasks`` has
    a task for each. ``ended`` and ``refused_count`` are for metrics.
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
        self._clock = clock
        self._states = TransactionStates(journal, features, settings.limits)
        self._tasks = Tasks()
        self._slow: set[str] = set()
        self._unwritten = BoundedLines(clock.monotonic)

    def __len__(self) -> int:
        return len(self._states.all)

    @property
    def size(self) -> int:
        """How many bytes all transactional ids take in memory, with their partitions."""
        return self._states.size

    @property
    def active_count(self) -> int:
        """How many transactions are open, or decided but not completed."""
        return len(self._states.active)

    def late_since(self, patience_ms: int) -> int:
        """Return a time; an open transaction whose last activity is earlier is late."""
        longest_ms = self._settings.server.transaction_max_timeout_ms
        return self._clock.now_ms() - longest_ms - patience_ms

    @property
    def verifies_appends(self) -> bool:
        """Whether appends of older clients are checked against their transactions, too."""
        return self._settings.server.transaction_partition_verification_enable

    def take_unflushed(self, transactional_id: str) -> dict[Log, None]:
        """Return the logs whose fsyncs ``flush.messages`` asks for before an answer to the id.

        Those of markers are waited for by answers to this id alone from now on.
        """
        due = self.journal.find_unwritten_of(transactional_id)
        return due | self.markers.take_unflushed(transactional_id)

    async def initialise(
        self, transactional_id: str, expected: Expected | None, timeout_ms: int
    ) -> Transaction:
        """Begin the next epoch of a transactional id, for a producer that starts or recovers.

        Raises:
            InvalidRequest: The id is empty.
            InvalidTransactionTimeout: The timeout is not in the range that the broker allows.
            PolicyViolation: The id is new, and there are too many ids, or they take too many bytes.
            ConcurrentTransactions: A transaction has to end first; this call may have ended it.
            ProducerFenced: The producer has been replaced.
            CoordinatorLoadInProgress: The journal is being read; other errors of the journal are
            raised, too.
        """
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id must not be empty")
        longest_ms = self._settings.server.transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest_ms:
            raise errors.InvalidTransactionTimeout(
                f"a time-out of {timeout_ms} ms is not from 1 to {longest_ms}, "
                "which is transaction.max.timeout.ms"
            )
        before = self._states.find(transactional_id)
        self._check_count(before)
        self._states.check_growth(transactional_id)
        new_producer_id = -1
        if before is None or initialising.takes_new_id(before, expected, self._states.version):
            new_producer_id = await self._producer_ids.allocate()
            before = self._states.find(transactional_id)
            self._check_count(before)
        now_ms = self._clock.now_ms()
        if before is None:
            after = initialising.begin(new_producer_id, timeout_ms, now_ms)
        elif new_producer_id < 0 and initialising.takes_new_id(
            before, expected, self._states.version
        ):
            # Other requests have used up the epochs since the check.
            raise errors.ConcurrentTransactions
        else:
            after = initialising.initialise(
                before,
                expected,
                timeout_ms,
                new_producer_id=new_producer_id,
                version=self._states.version,
                now_ms=now_ms,
            )
        self._states.write(transactional_id, after)
        if after.state in PREPARED:
            self._complete(transactional_id)
            raise errors.ConcurrentTransactions
        return after

    def _check_count(self, before: Transaction | None) -> None:
        """Refuse a new id if there are too many ids; `write` checks their bytes."""
        if before is None:
            self._settings.limits.check(Limit.TRANSACTIONAL_IDS, len(self._states.all) + 1)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        client_version: int,
    ) -> None:
        """Add partitions to the open transaction; the first partition opens it.

        Raises:
            KafkaError: See `transaction.add_partitions` and the journal.
        """
        before = self._states.find(transactional_id)
        after = add_partitions(
            before,
            producer_id,
            epoch,
            partitions,
            client_version=client_version,
            now_ms=self._clock.now_ms(),
        )
        if after is not before:
            self._states.write(transactional_id, after)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]
    ) -> None:
        """Check that a producer may append to a partition now.

        Raises:
            KafkaError: See `transaction.verify_partition` and the journal.
        """
        verify_partition(self._states.find(transactional_id), producer_id, epoch, partition)

    async def end(self, transactional_id: str, end: End) -> Transaction:
        """End a transaction; await this if `end_at_once` returned None."""
        return self._end(transactional_id, end, await self._producer_ids.allocate())

    def end_at_once(self, transactional_id: str, end: End) -> Transaction | None:
        """End a transaction and return the producer's next id and epoch; if None, await `end`.

        Raises:
            KafkaError: See `ending.end_transaction` and the journal.
        """
        transaction = self._states.find(transactional_id)
        if transaction is not None and ending.takes_new_id(transaction, end):
            return None
        return self._end(transactional_id, end, -1)

    def _end(self, transactional_id: str, end: End, new_producer_id: int) -> Transaction:
        before = self._states.find(transactional_id)
        if new_producer_id < 0 and before is not None and ending.takes_new_id(before, end):
            raise errors.ConcurrentTransactions
        now_ms = self._clock.now_ms()
        after = ending.end_transaction(before, end, new_producer_id=new_producer_id, now_ms=now_ms)
        if after is before:
            return after
        self._states.write(transactional_id, after)
        self.ended["commit" if end.is_commit else "abort"] += 1
        self._complete(transactional_id)
        return complete(after, now_ms)

    def describe(self, transactional_id: str) -> Transaction:
        """Return the state of a transactional id.

        Raises:
            InvalidRequest: The id is empty.
            TransactionalIdNotFound: The id is unknown.
        """
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id must not be empty")
        found = self._states.find(transactional_id)
        if found is None:
            raise errors.TransactionalIdNotFound
        return found

    def list_all(self) -> list[tuple[str, Transaction]]:
        """Return every transactional id.

        Raises:
            CoordinatorLoadInProgress: Some are not read yet.
        """
        self._states.check_loaded()
        return list(self._states.all.items())

    async def abort_timed_out(self) -> None:
        """Abort transactions that are open for too long, and fence their producers."""
        share = LoopShare()
        for transactional_id in tuple(self._states.active):
            await share.rest()
            transaction = self._states.all.get(transactional_id)
            if transaction is not None and transaction.is_timed_out(self._clock.now_ms()):
                _logger.info(
                    "transaction timed out transactional_id=%r producer=%d epoch=%d timeout_ms=%d",
                    transactional_id,
                    transaction.producer_id,
                    transaction.producer_epoch,
                    transaction.timeout_ms,
                )
                await self._abort(transactional_id, transaction, "timeout")

    def list_open(self) -> list[str]:
        """Return the transactional ids whose transaction is open."""
        ongoing = TransactionState.ONGOING
        return [each for each in self._states.active if self._states.all[each].state is ongoing]

    async def abort_open(self, spared: Container[str]) -> None:
        """Abort the open transactions whose ids are not in ``spared``; fence their producers."""
        for transactional_id in self.list_open():
            if transactional_id in spared:
                continue
            transaction = self._states.all.get(transactional_id)
            if transaction is not None and transaction.state is TransactionState.ONGOING:
                await self._abort(transactional_id, transaction, "abort")

    async def _abort(self, transactional_id: str, transaction: Transaction, how: str) -> None:
        """Abort an open transaction, unless it changes while a new producer id is allocated."""
        version = self._states.version
        new_producer_id = -1
        try:
            if ending.takes_new_id(transaction, ending.fencing(transaction, version)):
                new_producer_id = await self._producer_ids.allocate()
                if self._states.find(transactional_id) is not transaction:
                    return
            fenced = ending.fence(
                transaction,
                version=version,
                new_producer_id=new_producer_id,
                now_ms=self._clock.now_ms(),
            )
            self._states.write(transactional_id, fenced)
        except KafkaError as error:
            line = "transaction is not aborted yet transactional_id=%r reason=%s"
            self._unwritten.warn(_logger, line, transactional_id, error)
            return
        self.ended[how] += 1
        self._complete(transactional_id)

    async def settle(self) -> None:
        """Complete prepared transactions that a disk's failure or a crash left uncompleted."""
        share = LoopShare()
        for transactional_id in tuple(self._states.active):
            await share.rest()
            transaction = self._states.all.get(transactional_id)
            is_prepared = transaction is not None and transaction.state in PREPARED
            if is_prepared and transactional_id not in self._slow:
                self._complete(transactional_id)

    async def remove_expired(self) -> None:
        """Forget transactional ids that were not used for ``transactional.id.expiration.ms``."""
        expiration_ms = self._settings.server.transactional_id_expiration_ms
        now_ms = self._clock.now_ms()
        share = LoopShare()
        for transactional_id in list(self._states.all):
            await share.rest()
            transaction = self._states.all.get(transactional_id)
            if transaction is None or not transaction.is_expired(now_ms, expiration_ms):
                continue
            try:
                self._states.remove(transactional_id)
                self.markers.forget(transactional_id)
            except KafkaError as error:
                line = "transactional id is not removed yet transactional_id=%r reason=%s"
                self._unwritten.warn(_logger, line, transactional_id, error)

    async def load(self) -> None:
        """Read the journal back and complete the transactions that were decided."""
        await self._states.load(self._complete)

    async def run(self) -> None:
        """Handle time-outs and expiry, each at its own interval, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._abort_often(), name="transaction time-outs")
            tasks.create_task(self._remove_often(), name="transactional ids' expiry")

    async def catch_up(self) -> None:
        """Handle the time-outs and expiries that are due now, unless the journal is being read."""
        if not self.journal.loading_count:
            await self.settle()
            await self.abort_timed_out()
            await self.remove_expired()

    async def _abort_often(self) -> None:
        while True:
            server = self._settings.server
            interval_ms = server.transaction_abort_timed_out_transaction_cleanup_interval_ms
            await asyncio.sleep(interval_ms / 1000)
            await self.settle()
            await self.abort_timed_out()

    async def _remove_often(self) -> None:
        while True:
            server = self._settings.server
            interval_ms = server.transaction_remove_expired_transaction_cleanup_interval_ms
            await asyncio.sleep(interval_ms / 1000)
            await self.remove_expired()

    async def close(self) -> None:
        """Wait for the markers that are being written."""
        await self._tasks.finish()
        await self.journal.close()

    def _complete(self, transactional_id: str) -> None:
        """Write the markers of a prepared transaction and complete it, now or later."""
        transaction = self._states.all[transactional_id]
        if len(transaction.partitions) > _INLINE_MARKERS:
            self._slow.add(transactional_id)
            self._tasks.start(self._complete_slowly(transactional_id), "markers")
            return
        try:
            self.markers.write_all(_outcome(transaction), sorted(transaction.partitions))
            self._states.write(transactional_id, complete(transaction, self._clock.now_ms()))
        except KafkaError as error:
            self._say_unsettled(transactional_id, error)

    async def _complete_slowly(self, transactional_id: str) -> None:
        """Complete a transaction with very many partitions, some partitions at a time."""
        transaction = self._states.all[transactional_id]
        outcome = _outcome(transaction)
        share = LoopShare()
        try:
            ordered = await share.sort_once(list(transaction.partitions))
            for some in share.pieces(ordered):
                self.markers.write_all(outcome, some)
                await share.rest()
            self._states.write(transactional_id, complete(transaction, self._clock.now_ms()))
        except KafkaError as error:
            self._say_unsettled(transactional_id, error)
        finally:
            self._slow.discard(transactional_id)

    def _say_unsettled(self, transactional_id: str, error: KafkaError) -> None:
        line = "transaction is decided and not completed yet transactional_id=%r reason=%s"
        self._unwritten.warn(_logger, line, transactional_id, error)


def _outcome(transaction: Transaction) -> Outcome:
    return Outcome(transaction.producer_id, transaction.producer_epoch, transaction.is_commit)
