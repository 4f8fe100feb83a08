"""Writing the control batches that end a transaction in its partitions (KIP-98).

Kafka's TransactionMarkerChannelManager without the channels: the broker that coordinates leads all
partitions, so a marker is an append to the page cache, here and now.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.protocol.core.constants import CONTROL, TRANSACTIONAL
from siltstone.protocol.errors import InvalidProducerEpoch, KafkaStorageError
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.build import ABORT, COMMIT, build_marker
from siltstone.storage.appending.batch import own_batch
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin

_logger = logging.getLogger(__name__)

_FIRST_EPOCH: Final = 0


class Outcome(NamedTuple):
    """How a producer's transaction ended, and which coordinator decided that.

    Without an epoch this broker decided, as the newest coordinator; the epochs of earlier
    coordinators do not matter.
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int | None = None


class MarkerWriter:
    """Appends markers (loop only).

    ``offsets`` is called for each marker in a partition of ``__consumer_offsets``, since the marker
    commits or drops the offsets of the transaction. ``_unflushed`` has the ends of markers that
    ``flush.messages`` wants on the disk, ``_taken`` those that answers to an id wait for.
    """

    def __init__(self, topics: TopicRegistry, offsets: Offsets, clock: Clock) -> None:
        self._unflushed: dict[Log, int] = {}
        self._taken: dict[str, dict[Log, int]] = {}
        self._topics = topics
        self._offsets = offsets
        self._clock = clock

    def take_unflushed(self, transactional_id: str) -> dict[Log, None]:
        """Return the logs whose markers wait for an fsync; from now on answers to the id wait.

        They are returned for this id again until they are on the disk, as the request that waits
        for the fsync may be cancelled. An fsync that has failed is told once.
        """
        if not (self._unflushed or self._taken):
            return {}
        again = self._taken.pop(transactional_id, {})
        due = {log: end for log, end in again.items() if log.directory.failure is None}
        due |= self._unflushed
        self._unflushed = {}
        logs = self._topics.logs
        due = {
            log: end
            for log, end in due.items()
            if log.recovery_point < end and logs.get(log.topic_partition) is log
        }
        if due:
            self._taken[transactional_id] = due
        return dict.fromkeys(due)

    def forget(self, transactional_id: str) -> None:
        """Forget what answers to an id wait for, since the id is removed."""
        self._taken.pop(transactional_id, None)

    def write_all(self, outcome: Outcome, partitions: Iterable[tuple[str, int]]) -> None:
        """Write the marker to each partition, even to one that has it already.

        A deleted partition needs no marker. A partition in which a newer epoch has written needs
        none either: it knows how all earlier transactions ended.

        Raises:
            KafkaStorageError: A disk does not take the marker, or a partition is set aside.
        """
        logs = self._topics.logs
        for topic, index in partitions:
            target = logs.get((topic, index))
            if target is None:
                if self._topics.is_unserved(topic, index):
                    raise KafkaStorageError(f"partition {index} of {topic} is not served")
                continue
            try:
                if self.write(target, outcome):
                    self._unflushed[target] = target.log_end_offset
            except InvalidProducerEpoch as error:
                _logger.warning(
                    "marker is late and left out partition=%s producer=%d epoch=%d reason=%s",
                    target.topic_partition,
                    outcome.producer_id,
                    outcome.producer_epoch,
                    error,
                )

    def write(self, target: Log, outcome: Outcome) -> bool:
        """Write the marker to one partition; tell whether ``flush.messages`` wants an fsync.

        Raises:
            InvalidProducerEpoch: A newer epoch of the producer has written.
            TransactionCoordinatorFenced: A newer coordinator has written.
            KafkaStorageError: The disk does not take the marker.
        """
        now_ms = self._clock.now_ms()
        batch = build_marker(
            0,
            now_ms,
            COMMIT if outcome.is_commit else ABORT,
            _coordinator_epoch(target, outcome),
            producer_id=outcome.producer_id,
            producer_epoch=outcome.producer_epoch,
        )
        written = target.append(
            own_batch(
                batch,
                1,
                TRANSACTIONAL | CONTROL,
                now_ms,
                outcome.producer_id,
                outcome.producer_epoch,
            ),
            Origin.COORDINATOR,
        )
        topic, partition = target.topic_partition
        if topic == OFFSETS_TOPIC:
            self._offsets.complete(partition, outcome.producer_id, is_commit=outcome.is_commit)
        return written.flush_due


def _coordinator_epoch(target: Log, outcome: Outcome) -> int:
    """Return the coordinator epoch for a marker; this broker's is never below the partition's.

    The partition may know a greater epoch, from an administrator or from the cluster that wrote it
    before.
    """
    if outcome.coordinator_epoch is not None:
        return outcome.coordinator_epoch
    entry = target.producers.producers.get(outcome.producer_id)
    return _FIRST_EPOCH if entry is None else max(_FIRST_EPOCH, entry.coordinator_epoch)
