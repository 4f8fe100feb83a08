"""The share coordinator: the state of all queues, and its journal (Kafka: ShareCoordinatorShard).

The one node is its own persister: queues and groups call the methods that serve the requests 83 to
87. A change is in the journal before it is in memory; a call that changes something returns when
the page cache has it, and `flush` waits for the disk where ``flush.messages`` asks for that.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from siltstone.broker.coordination.journal import CoordinatorLog
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.client_limits import Limit
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.state import NOT_SET, ShareState
from siltstone.broker.share.stored import StoredState
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.topic import Topic
from siltstone.protocol import errors
from siltstone.protocol.coordinator.share_state_records import (
    Snapshot,
    StateKey,
    Update,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import InvalidRequest, KafkaError, ProtocolError
from siltstone.protocol.names import SHARE_STATE_TOPIC
from siltstone.protocol.records.journal import Entry, EntryKind, Row
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log

_logger = logging.getLogger(__name__)

_QUEUE_BYTES: Final = 700
"""The bytes of a queue in memory, but for its batches and the characters of its group."""
_BATCH_BYTES: Final = 20
_TOMBSTONES_AT_A_TIME: Final = 500


class Summary(NamedTuple):
    """The start of a queue, and how much of it is done."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NOT_SET
    delivery_complete_count: int = NOT_SET


class ShareStates:
    """The delivery states by queue, never ahead of ``__share_group_state`` (loop only).

    ``loaded`` is set when the journal is read; until then partitions that are not read yet refuse.
    ``size`` is how many bytes all states take in memory. ``pruned`` has the offset below which a
    partition's records were deleted last.
    """

    def __init__(
        self,
        journal: CoordinatorLog,
        topics: TopicRegistry,
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
    ) -> None:
        self.journal = journal
        self.loaded = asyncio.Event()
        self.size = 0
        self.write_count = 0
        self.pruned: dict[int, int] = {}
        self._topics = topics
        self._settings = settings
        self._io = io
        self._clock = clock
        self._queues: dict[ShareKey, StoredState] = {}
        self._last_deleted: dict[int, int] = {}  # partition -> offset of its last tombstone
        self._unwritten = BoundedLines(clock.monotonic)
        self._tasks = Tasks()
        topics.on_delete(self._topic_deleted)

    def __len__(self) -> int:
        return len(self._queues)

    async def ensure_created(self) -> None:
        """Create the journal's topic if it does not exist.

        Raises:
            CoordinatorNotAvailable: The disk did not take the topic.
        """
        await self.journal.ensure_created()

    def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state of a queue for the leader of its partition, which it then is.

        Raises:
            InvalidRequest: The queue is not initialized, or a number is negative.
            FencedLeaderEpoch: There was a newer leader.
            UnknownTopicOrPartition: The partition does not exist.
            KafkaError: The journal refuses.
        """
        queue = self._find(key)
        _check_numbers(key, leader_epoch=leader_epoch)
        if queue is None:
            raise InvalidRequest("Read operation on uninitialized share partition not allowed.")
        if queue.highest_leader_epoch > leader_epoch:
            raise errors.FencedLeaderEpoch
        self._check_exists(key)
        state = ShareState(
            queue.state_epoch, queue.start_offset, queue.complete_count, queue.batches()
        )
        if queue.highest_leader_epoch != leader_epoch:
            self._write(key, queue, state._replace(batches=()), leader_epoch)
        return state

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        """Begin a queue at an offset; what was known of its records is forgotten.

        Raises:
            InvalidRequest: A number is negative.
            FencedStateEpoch: The queue has a newer state epoch.
            UnknownTopicOrPartition: The partition does not exist.
            PolicyViolation: The queue is new, and all queues take too many bytes.
            KafkaError: The journal refuses.
        """
        queue = self._find(key)
        _check_numbers(key, state_epoch=state_epoch)
        if queue is not None and queue.state_epoch > state_epoch:
            raise errors.FencedStateEpoch
        self._check_exists(key)
        is_new = queue is None
        if queue is None:
            self._settings.limits.check(Limit.SHARE_STATE_BYTES, self.size + _size_of(key))
            queue = StoredState(self.journal.partition_for(str(key)))
        snapshot = queue.begin(state_epoch, start_offset, self._clock.now_ms(), is_new=is_new)
        self._publish(key, queue, snapshot)

    def write(self, key: ShareKey, leader_epoch: int, change: ShareState) -> None:
        """Write what has changed in a queue: its start, and the batches that are no longer as told.

        Raises:
            InvalidRequest: The queue is not initialized, or a number is negative.
            FencedLeaderEpoch: There was a newer leader.
            FencedStateEpoch: The queue has a newer state epoch.
            UnknownTopicOrPartition: The partition does not exist.
            PolicyViolation: All queues take too many bytes.
            KafkaError: The journal refuses.
        """
        queue = self._find(key)
        _check_numbers(key, leader_epoch=leader_epoch, state_epoch=change.state_epoch)
        if queue is None:
            raise InvalidRequest("Write operation on uninitialized share partition not allowed.")
        if queue.highest_leader_epoch > leader_epoch:
            raise errors.FencedLeaderEpoch
        if queue.state_epoch > change.state_epoch:
            raise errors.FencedStateEpoch
        self._check_exists(key)
        if change.start_offset <= queue.start_offset:  # otherwise it frees something
            more = len(change.batches) * _BATCH_BYTES
            self._settings.limits.check(Limit.SHARE_STATE_BYTES, self.size + more)
        self._write(key, queue, change, queue.leader_epoch)

    def delete(self, key: ShareKey) -> None:
        """Forget a queue; one that does not exist is no error.

        Raises:
            InvalidRequest: A number is negative.
            UnknownTopicOrPartition: The partition does not exist.
            KafkaError: The journal refuses.
        """
        queue = self._find(key)
        _check_numbers(key)
        self._check_exists(key)
        if queue is not None:
            self._delete(queue.partition, [key])

    def summary(self, key: ShareKey) -> Summary:
        """Return the start of a queue; of one that does not exist, a summary without an offset.

        Raises:
            InvalidRequest: A number is negative.
            UnknownTopicOrPartition: The partition does not exist.
            KafkaError: The journal refuses.
        """
        queue = self._find(key)
        _check_numbers(key)
        self._check_exists(key)
        if queue is None:
            return Summary()
        return Summary(
            queue.state_epoch, queue.leader_epoch, queue.start_offset, queue.complete_count
        )

    def find_unwritten(self, key: ShareKey) -> dict[Log, None]:
        """Return the log of a queue while a record in it waits for its fsync."""
        return self.journal.find_unwritten_of(str(key))

    async def flush(self, due: Iterable[Log]) -> None:
        """Wait until logs are on the disk.

        Raises:
            NotCoordinator: The appended records may not be on the disk.
        """
        await self.journal.flush(due)

    async def load(self) -> None:
        """Read the journal back; ``loaded`` is set afterwards."""
        await self.journal.load(self._apply, lambda _: None)
        self.loaded.set()
        await self._forget_orphans()

    async def run(self) -> None:
        """Prune, and write snapshots of quiet queues, from time to time, until cancelled."""
        await self.loaded.wait()
        server = self._settings.server
        began = self._clock.monotonic()
        due = {
            self.prune: server.share_coordinator_state_topic_prune_interval_ms,
            self.snapshot_cold: server.share_coordinator_cold_partition_snapshot_interval_ms,
        }
        times = {work: began + each / 1000 for work, each in due.items()}
        while True:
            work = min(times, key=times.__getitem__)
            await asyncio.sleep(max(0.0, times[work] - self._clock.monotonic()))
            await work()
            times[work] = self._clock.monotonic() + due[work] / 1000

    async def catch_up(self) -> None:
        """Do all work that is due now."""
        await self.loaded.wait()
        await self.snapshot_cold()
        await self.prune()

    async def prune(self) -> None:
        """Delete the records of the journal that newer snapshots replace.

        The snapshots are on the disk before: otherwise a power failure could leave neither.
        """
        await self._forget_orphans()
        for partition, offset in self._find_redundant().items():
            log = self._topics.logs.get((SHARE_STATE_TOPIC, partition))
            if log is None or self.pruned.get(partition, 0) == offset:
                continue
            try:
                await self._io.run(log.flush)
                log.delete_records(offset)
                self.pruned[partition] = offset
            except KafkaError as error:
                line = "state of queues not pruned partition=%s-%d reason=%s"
                self._unwritten.warn(_logger, line, SHARE_STATE_TOPIC, partition, error)

    async def snapshot_cold(self) -> None:
        """Write a snapshot of each queue whose last snapshot is old, so that pruning goes on."""
        server = self._settings.server
        patience_ms = server.share_coordinator_cold_partition_snapshot_interval_ms
        warm = {
            queue.partition
            for queue in self._queues.values()
            if queue.created_ms == queue.written_ms
        }
        share = LoopShare()
        for key, queue in tuple(self._queues.items()):
            await share.rest()
            now_ms = self._clock.now_ms()
            if (
                queue.partition not in warm
                or now_ms - queue.written_ms < patience_ms
                or self._queues.get(key) is not queue
            ):
                continue
            try:
                self._publish(key, queue, queue.repeat(now_ms))
            except KafkaError as error:
                line = "no snapshot of a quiet queue group=%s reason=%s"
                self._unwritten.warn(_logger, line, key.group_id, error)

    async def close(self) -> None:
        """Wait for the creation of the topic, and for deletions."""
        await self._tasks.cancel()
        await self.journal.close()

    def _find(self, key: ShareKey) -> StoredState | None:
        """Return a queue's state; refuse if its partition of the journal is not known."""
        queue = self._queues.get(key)
        if not self.journal.is_settled:
            self.journal.check(
                self.journal.partition_for(str(key)) if queue is None else queue.partition
            )
        return queue

    def _check_exists(self, key: ShareKey) -> None:
        topic = self._topics.find_id(key.topic_id)
        if topic is None or key.partition >= topic.partitions:
            raise errors.UnknownTopicOrPartition

    def _write(
        self, key: ShareKey, queue: StoredState, change: ShareState, leader_epoch: int
    ) -> None:
        per_snapshot = self._updates_per_snapshot
        record = queue.change(change, leader_epoch, self._clock.now_ms(), per_snapshot)
        self._publish(key, queue, record)

    def _publish(self, key: ShareKey, queue: StoredState, record: Snapshot | Update) -> None:
        """Write a record to the journal, then apply it."""
        head = encode_key(StateKey(isinstance(record, Update), *key))
        offset = self.journal.append(queue.partition, [(head, encode_value(record))])
        self.write_count += 1
        self._take(key, queue, record, offset)

    def _take(
        self, key: ShareKey, queue: StoredState, record: Snapshot | Update, offset: int
    ) -> None:
        if self._queues.get(key) is not queue:
            self._queues[key] = queue
            self.size += _size_of(key)
        before = queue.size
        if isinstance(record, Update):
            queue.take_update(record)
        else:
            queue.take_snapshot(record, offset, self._updates_per_snapshot)
        self.size += queue.size - before

    @property
    def _updates_per_snapshot(self) -> int:
        return self._settings.server.share_coordinator_snapshot_update_records_per_snapshot

    def _delete(self, partition: int, keys: list[ShareKey]) -> None:
        """Write the tombstones of queues of one partition, then forget them."""
        rows: list[Row] = [(encode_key(StateKey(False, *key)), None) for key in keys]
        offset = self.journal.append(partition, rows)
        for key in keys:
            self._forget(key)
        self._last_deleted[partition] = offset + len(rows) - 1

    def _forget(self, key: ShareKey) -> None:
        queue = self._queues.pop(key, None)
        if queue is not None:
            self.size -= _size_of(key) + queue.size

    def _find_redundant(self) -> dict[int, int]:
        """Return the offset of the first record that counts, by partition."""
        first = dict.fromkeys(self._last_deleted, NOT_SET)
        for queue in self._queues.values():
            if queue.offset != NOT_SET:
                known = first.get(queue.partition, NOT_SET)
                first[queue.partition] = queue.offset if known < 0 else min(known, queue.offset)
        found = {
            partition: self._last_deleted[partition] if offset == NOT_SET else offset
            for partition, offset in first.items()
        }
        return {partition: offset for partition, offset in found.items() if offset > 0}

    def _topic_deleted(self, topic: Topic) -> None:
        if topic.name == SHARE_STATE_TOPIC:
            self._queues.clear()
            self._last_deleted.clear()
            self.pruned.clear()
            self.size = 0
            self.journal.forget()
        elif self._queues and self.loaded.is_set():
            self._tasks.start(self._forget_orphans(), "queues of deleted topics")

    async def _forget_orphans(self) -> None:
        """Delete the states of queues whose topics do not exist any more."""
        share = LoopShare()
        orphans: dict[int, list[ShareKey]] = {}
        for key, queue in tuple(self._queues.items()):
            if self._topics.find_id(key.topic_id) is None:
                orphans.setdefault(queue.partition, []).append(key)
            await share.rest()
        for partition, keys in orphans.items():
            for start in range(0, len(keys), _TOMBSTONES_AT_A_TIME):
                some = [
                    each for each in keys[start:][:_TOMBSTONES_AT_A_TIME] if each in self._queues
                ]
                try:
                    if some:
                        self._delete(partition, some)
                except KafkaError as error:
                    line = "queues of deleted topics are kept partition=%s-%d reason=%s"
                    self._unwritten.warn(_logger, line, SHARE_STATE_TOPIC, partition, error)
                await share.rest()

    def _apply(self, partition: int, entries: list[Entry]) -> None:
        """Take the states from the journal; a record that cannot be read is skipped."""
        for entry in entries:
            if entry.kind != EntryKind.PLAIN:
                continue
            try:
                self._replay(partition, entry)
            except (ProtocolError, ValueError) as error:
                self.journal.skip(partition, entry.offset, error)

    def _replay(self, partition: int, entry: Entry) -> None:
        found = decode_key(entry.key)
        if found is None:
            return
        key = ShareKey(*found[1:])
        if entry.value is not None:
            queue = self._queues.get(key) or StoredState(partition)
            self._take(key, queue, decode_value(found, entry.value), entry.offset)
        elif not found.is_update:
            self._forget(key)
            self._last_deleted[partition] = entry.offset


def _check_numbers(key: ShareKey, *, leader_epoch: int = 0, state_epoch: int = 0) -> None:
    """Refuse negative numbers, in Kafka's words and order."""
    if key.partition < 0:
        raise InvalidRequest("The partition id cannot be a negative number.")
    if leader_epoch < 0:
        raise InvalidRequest("The leader epoch cannot be a negative number.")
    if state_epoch < 0:
        raise InvalidRequest("The state epoch cannot be a negative number.")


def _size_of(key: ShareKey) -> int:
    """Return how many bytes a queue takes in memory without its batches."""
    return _QUEUE_BYTES + len(key.group_id) * (1 if key.group_id.isascii() else 4)
