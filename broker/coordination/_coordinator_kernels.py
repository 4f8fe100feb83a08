"""A coordinator's write into its journal. Compiled by Cython, or run as plain Python.

The types of C stand in ``_coordinator_kernels.pxd``.
"""

from typing import TYPE_CHECKING

from siltstone.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
)
from siltstone.protocol.records.batch import NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL
from siltstone.protocol.records.journal import NO_PRODUCER
from siltstone.storage.appending.values import Origin, ValidatedBatch

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.protocol.core import pack_rows
    from siltstone.protocol.records._portable import row_of, slot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.protocol.records.journal import Producer, Row
    from siltstone.storage.appending._append_kernels import LogEnd
    from siltstone.storage.clock import Clock
    from siltstone.storage.log.log import Log


_ORIGIN = Origin.COORDINATOR


class Journal:
    """The partitions of one internal topic, as its coordinator writes into them (loop only).

    ``unflushed`` is what must be on the disk before anybody is answered. A base of
    `CoordinatorLog`, which reads back what is written here and knows what is not read yet.
    """

    __slots__ = ("_clock", "_failed", "_loading", "_topics", "name", "unflushed")

    def __init__(self, name: str, topics: "TopicRegistry", clock: "Clock") -> None:
        self.name = name
        self.unflushed: set[Log] = set()
        self._topics = topics
        self._clock = clock
        self._loading: set[int] = set()
        self._failed: set[int] = set()

    @property
    def is_created(self) -> bool:
        """Whether the topic exists."""
        return self.name in self._topics.topics

    @property
    def is_settled(self) -> bool:
        """Whether there are partitions, and every one of them could be read."""
        return not self._loading and not self._failed and self.name in self._topics.topics

    def append(
        self, partition: int, rows: "Sequence[Row]", producer: "Producer" = NO_PRODUCER
    ) -> int:
        """Write the records as one batch, into the page cache, and return the first's offset.

        Raises:
            CoordinatorNotAvailable: There is no such topic.
            NotCoordinator: The disk does not take it.
            UnknownServerError: The batch is larger than the topic takes.
            InvalidProducerEpoch: A newer epoch of the producer has written.
        """
        target = self._topics.logs.get((self.name, partition))
        if target is None:
            raise CoordinatorNotAvailable(f"partition {partition} of {self.name} is not there")
        now_ms = self._clock.now_ms()
        producer_id, producer_epoch = producer
        batch = pack_rows(rows, now_ms, producer_id, producer_epoch)
        size = len(batch)
        if size > target.config.max_message_bytes:
            # As in Kafka: MESSAGE_TOO_LARGE is not an error code of a group's API.
            raise UnknownServerError(f"{size} bytes are more than {self.name} takes at once")
        count = len(rows)
        end: LogEnd = slot_of(target, "end")
        try:
            if producer_id < 0:
                base_offset = end.add(target, batch, size, count, now_ms)
            else:
                base_offset = self._append_of_producer(target, batch, count, now_ms, producer)
        except (KafkaStorageError, NotLeaderOrFollower) as error:
            raise NotCoordinator(error.message) from error
        if end.is_flush_due():
            self.unflushed.add(target)
        return base_offset

    def _append_of_producer(
        self, target: "Log", batch: bytearray, count: int, now_ms: int, producer: "Producer"
    ) -> int:
        """Append a batch of a transaction, whose producer is checked and kept."""
        fields = (
            memoryview(batch),
            len(batch),
            count - 1,
            count,
            TRANSACTIONAL,
            now_ms,
            producer[0],
            producer[1],
            NO_SEQUENCE,
            NO_TIMESTAMP,
        )
        return target.end.append(target, row_of(ValidatedBatch, fields), _ORIGIN).base_offset
