"""The state of each transactional id, and its journal (Kafka: TransactionStateManager)."""

import logging
from collections.abc import Callable
from sys import getsizeof
from typing import Final

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.process.client_limits import Limit, Limits
from siltstone.broker.topics.features import Features
from siltstone.broker.transactions.transaction import (
    NO_PARTITIONS,
    PREPARED,
    Transaction,
    TransactionState,
)
from siltstone.protocol.coordinator.transaction_records import (
    NEWEST,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import CoordinatorLoadInProgress, ProtocolError
from siltstone.protocol.records.journal import Entry, EntryKind

_logger = logging.getLogger(__name__)

_EACH_BYTES: Final = 600
"""The bytes of a transactional id in memory, but for its characters."""
_PARTITION_BYTES: Final = 100
"""The bytes of a partition besides its place in a set: its number, and a pair with its topic."""

_OPEN: Final = PREPARED | {TransactionState.ONGOING}


class TransactionStates:
    """The transactional ids by name, never ahead of ``__transaction_state`` (loop only).

    ``active`` holds the ids with an open or a prepared transaction, the one that began first in
    front: time-outs and unfinished ends are looked for among them. ``size`` is how many bytes all
    ids take in memory.
    """

    def __init__(self, journal: CoordinatorLog, features: Features, limits: Limits) -> None:
        self.journal = journal
        self.all: dict[str, Transaction] = {}
        self.active: dict[str, None] = {}
        self.size = 0
        self._features = features
        self._limits = limits

    @property
    def version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self._features.level("transaction.version")

    def find(self, transactional_id: str) -> Transaction | None:
        """Return the state of an id; None if the id was never used.

        Raises:
            CoordinatorLoadInProgress: The id's part of the journal is not read yet.
            NotCoordinator: That part could not be read.
        """
        found = self.all.get(transactional_id)
        if found is None or self.journal.loading_count:
            self.journal.check(self.journal.partition_for(transactional_id))
        return found

    def check_loaded(self) -> None:
        """Refuse a request about all ids until all are known.

        Raises:
            CoordinatorLoadInProgress: A part of the journal is not read yet.
        """
        if self.journal.loading_count:
            raise CoordinatorLoadInProgress

    def write(self, transactional_id: str, transaction: Transaction) -> None:
        """Write the next state of an id to the journal, then publish it here.

        Raises:
            PolicyViolation: The id is new or has more partitions, and all would take too many
                bytes.
            KafkaError: The journal does not take it; nothing has changed.
        """
        self.check_growth(transactional_id, transaction.partitions)
        value = encode_value(transaction.logged, min(self.version, NEWEST))
        self._append(transactional_id, value)
        self._publish(transactional_id, transaction)

    def check_growth(
        self, transactional_id: str, partitions: frozenset[tuple[str, int]] = NO_PARTITIONS
    ) -> None:
        """Refuse a new id, or more partitions of an id, if that would take too many bytes.

        Raises:
            PolicyViolation: transactional.ids.max.bytes would be exceeded.
        """
        more = _size_of(transactional_id, partitions)
        before = self.all.get(transactional_id)
        if before is not None:
            more -= _size_of(transactional_id, before.partitions)
        if more > 0:
            self._limits.check(Limit.TRANSACTION_BYTES, self.size + more)

    def remove(self, transactional_id: str) -> None:
        """Write that an id is forgotten, and forget it.

        Raises:
            KafkaError: The journal does not take it; nothing has changed.
        """
        self.journal.check(self.journal.partition_for(transactional_id))
        self._append(transactional_id, None)
        self._forget(transactional_id)

    async def load(self, carry_out: Callable[[str], None]) -> None:
        """Read the journal back; ``carry_out`` is called with each id whose end was decided."""

        def loaded(partition: int) -> None:
            for transactional_id in tuple(self.active):
                if (
                    self.all[transactional_id].state in PREPARED
                    and self.journal.partition_for(transactional_id) == partition
                ):
                    carry_out(transactional_id)

        await self.journal.load(self._apply, loaded)

    def _append(self, transactional_id: str, value: bytes | None) -> None:
        partition = self.journal.partition_for(transactional_id)
        self.journal.append(partition, [(encode_key(transactional_id), value)])

    def _forget(self, transactional_id: str) -> None:
        known = self.all.pop(transactional_id, None)
        if known is not None:
            self.size -= _size_of(transactional_id, known.partitions)

    def _publish(self, transactional_id: str, transaction: Transaction) -> None:
        self._forget(transactional_id)
        self.all[transactional_id] = transaction
        self.size += _size_of(transactional_id, transaction.partitions)
        if transaction.state in _OPEN:
            self.active[transactional_id] = None
        else:
            self.active.pop(transactional_id, None)

    def _apply(self, partition: int, entries: list[Entry]) -> None:
        """Take the states from the journal; a record that cannot be read is skipped."""
        for entry in entries:
            if entry.kind != EntryKind.PLAIN:
                continue
            try:
                self._take(entry)
            except (ProtocolError, ValueError) as error:
                self.journal.skip(partition, entry.offset, error)

    def _take(self, entry: Entry) -> None:
        transactional_id = decode_key(entry.key)
        if transactional_id is None:
            return
        if entry.value is None:
            self._forget(transactional_id)
            self.active.pop(transactional_id, None)
        else:
            self._publish(transactional_id, Transaction.of(decode_value(entry.value)))


def _size_of(transactional_id: str, partitions: frozenset[tuple[str, int]]) -> int:
    """Return how many bytes an id takes in memory; quick if transactions are small."""
    size = _EACH_BYTES + len(transactional_id) * (1 if transactional_id.isascii() else 4)
    if partitions:
        size += getsizeof(partitions) + len(partitions) * _PARTITION_BYTES
    return size
