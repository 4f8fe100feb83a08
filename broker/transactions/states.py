"""What is known of each transactional id, and its journal (Kafka: TransactionStateManager)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from siltstone.broker.transactions.transaction import PREPARED, Transaction, TransactionState
from siltstone.protocol.coordinator.transaction_records import (
    NEWEST,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import CoordinatorLoadInProgress, ProtocolError
from siltstone.protocol.records.journal import EntryKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.coordination.journal import CoordinatorLog
    from siltstone.broker.topics.features import Features
    from siltstone.protocol.records.journal import Entry

log = logging.getLogger(__name__)

_OPEN: Final = PREPARED | {TransactionState.ONGOING}


class TransactionStates:
    """The transactional ids by name, never ahead of ``__transaction_state`` (loop only).

    ``active`` are those with an open or a prepared transaction: what time-outs and unfinished ends
    are looked for in.
    """

    def __init__(self, journal: CoordinatorLog, features: Features) -> None:
        self.journal = journal
        self.all: dict[str, Transaction] = {}
        self.active: set[str] = set()
        self._features = features

    @property
    def version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self._features.level("transaction.version")

    def find(self, transactional_id: str) -> Transaction | None:
        """Return where an id stands, None if nobody has used it.

        Raises:
            CoordinatorLoadInProgress: What is known of it is not read yet.
            NotCoordinator: It could not be read.
        """
        found = self.all.get(transactional_id)
        if found is None or self.journal.loading_count:
            self.journal.check(self.journal.partition_for(transactional_id))
        return found

    def check_loaded(self) -> None:
        """Refuse to speak of all ids before all are known.

        Raises:
            CoordinatorLoadInProgress: Some are not read yet.
        """
        if self.journal.loading_count:
            raise CoordinatorLoadInProgress

    def write(self, transactional_id: str, transaction: Transaction) -> None:
        """Write the next state of an id, and publish it.

        Raises:
            KafkaError: The journal does not take it; nothing has changed.
        """
        value = encode_value(transaction.logged, min(self.version, NEWEST))
        self._append(transactional_id, value)
        self._publish(transactional_id, transaction)

    def remove(self, transactional_id: str) -> None:
        """Write that an id is forgotten, and forget it.

        Raises:
            KafkaError: The journal does not take it; nothing has changed.
        """
        self.journal.check(self.journal.partition_for(transactional_id))
        self._append(transactional_id, None)
        del self.all[transactional_id]

    async def load(self, carry_out: Callable[[str], None]) -> None:
        """Read the journal back; ``carry_out`` gets each id whose end was decided."""

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

    def _publish(self, transactional_id: str, transaction: Transaction) -> None:
        self.all[transactional_id] = transaction
        if transaction.state in _OPEN:
            self.active.add(transactional_id)
        else:
            self.active.discard(transactional_id)

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
            self.all.pop(transactional_id, None)
            self.active.discard(transactional_id)
        else:
            self._publish(transactional_id, Transaction.of(decode_value(entry.value)))
