"""Which batches of transactions may go (Kafka: ``CleanedTransactionMetadata``).

Rules in readable Python: the kernels do the same, and tests compare both.
"""

from collections import deque
from collections.abc import Iterable

from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.producers.markers import Marker, MarkerKind
from siltstone.storage.producers.transaction_index import AbortedTransaction


class CleanedTransactionMetadata:
    """The open transactions at one place of a walk over the batches of a log.

    Ask once for each batch, in the order of the log. ``kept`` are the aborted ones whose marker
    stays with its data, in marker order: the entries of the new transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}  # producer id -> the open one
        self._seen: set[int] = set()  # producer ids of open aborted ones with data
        self._committed: set[int] = set()  # producer ids with data of no aborted one
        self.kept: list[AbortedTransaction] = []

    def is_discardable(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Tell whether a batch may go, whatever its keys; ``marker`` is that of a control batch."""
        if not header.is_transactional and not header.is_control:
            return False
        self._begin(header)
        if header.is_control:
            return header.count == 0 or (marker is not None and self._end(header, marker))
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def _begin(self, header: BatchHeader) -> None:
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            transaction = self._coming.popleft()
            if transaction.last_offset >= header.base_offset:
                self._aborted.setdefault(transaction.producer_id, transaction)

    def _end(self, header: BatchHeader, marker: Marker) -> bool:
        """Close a transaction; true if no data of it is left."""
        producer_id = header.producer_id
        if marker.kind is MarkerKind.COMMIT:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        self.kept.append(transaction)
        return False
