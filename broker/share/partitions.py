"""All queues in use: loaded from the share coordinator, and written back to it.

Kafka: SharePartitionManager, SharePartitionCache. What a member acknowledges counts when it is
written; if it cannot be written, the queue is as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.process.io import IoThreads
from siltstone.broker.share.key import Letters, ShareKey
from siltstone.broker.share.live import LiveQueue
from siltstone.broker.share.partition import (
    ARCHIVING,
    Acknowledged,
    Change,
    Dead,
    Limits,
    SharePartition,
)
from siltstone.broker.share.sessions import ShareSession, ShareSessions
from siltstone.broker.share.state import NOT_SET, ShareState
from siltstone.broker.share.states import ShareStates
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.config.share_groups import EARLIEST, LATEST, parse_offset_reset
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import GroupIdNotFound
from siltstone.protocol.errors import KafkaError
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log

if TYPE_CHECKING:
    from siltstone.broker.share.dead_letters import DeadLetters

_logger = logging.getLogger(__name__)

_NOT_AVAILABLE: Final = (
    errors.NotCoordinator, errors.CoordinatorNotAvailable, errors.CoordinatorLoadInProgress,
)  # fmt: skip
_FENCED: Final = (errors.FencedLeaderEpoch, errors.FencedStateEpoch)
_TOLD: Final = (GroupIdNotFound, errors.UnknownTopicOrPartition)
_ROUNDING_MS: Final = 0.001


class SharePartitions:
    """The queues in use by key, and the share sessions (loop only)."""

    def __init__(
        self,
        states: ShareStates,
        topics: TopicRegistry,
        settings: BrokerSettings,
        timers: Timers,
        io: IoThreads,
        clock: Clock,
        dead_letters: OnFirstUse[DeadLetters],
    ) -> None:
        self.live: dict[ShareKey, LiveQueue] = {}
        self.is_closed = False
        self.sessions = ShareSessions(
            lambda: settings.server.group_share_max_share_sessions,
            lambda: settings.server.fetch_session_partitions_max_count,
        )
        self.states = states
        self.timers = timers
        self._topics = topics
        self._settings = settings
        self._io = io
        self._clock = clock
        self._dead_letters = dead_letters
        self._on_the_way: set[tuple[ShareKey, int]] = set()  # the first records of dead letters

    def limits_of(self, group_id: str) -> Limits:
        """Return the settings of a group that are in force."""
        config = self._settings.group_config(group_id)
        return Limits(
            config.share_delivery_count_limit,
            config.share_partition_max_record_locks,
            config.share_record_lock_duration_ms,
            config.share_renew_acknowledge_enable,
            bool(config.errors_deadletterqueue_topic_name)
            and self._dead_letters.get().is_wanted(config),
        )

    async def open(self, key: ShareKey) -> LiveQueue:
        """Return a queue in use; load it first if it is not.

        Raises:
            KafkaError: The partition does not exist, or its state cannot be read.
        """
        live = self.live.get(key)
        if live is not None:
            return live
        log = self._topics.find_log(key.topic_id.bytes, key.partition)
        try:
            state = self.states.read(key, log.leader_epoch)
        except KafkaError as error:
            raise _told(error) from error
        start = state.start_offset
        if start == NOT_SET:
            start = await self._find_start(key.group_id, log)
            if key in self.live:
                return self.live[key]
        queue = SharePartition.load(state, start)
        live = self.live[key] = LiveQueue(key, log, queue, self.timers, self.log_gone)
        most = self.limits_of(key.group_id).max_deliveries
        for first, last, fate, count, *_ in tuple(queue.runs()):
            if fate is ARCHIVING:  # a stop came before its letters were written
                self._bury(live, [Dead(first, last, count, count < most)])
        return live

    async def _find_start(self, group_id: str, log: Log) -> int:
        """Return where a group begins in a partition that it has not read yet."""
        reset = parse_offset_reset(self._settings.group_config(group_id).share_auto_offset_reset)
        if reset.word == LATEST:
            return log.high_watermark
        if reset.word == EARLIEST:
            return log.log_start_offset
        since = self._clock.now_ms() - reset.duration_ms
        found = await self._io.run(log.find_offset_by_timestamp, since, log.high_watermark)
        if found is None:
            raise errors.OffsetNotAvailable
        return found.offset

    def acknowledge(self, key: ShareKey, member: str, batches: Sequence[Acknowledged]) -> None:
        """Take what a member says of its records, and write it.

        Raises:
            UnknownTopicOrPartition: The queue is not in use.
            KafkaError: A record is not the member's, or the state was not written: nothing counts.
        """
        live = self.live.get(key)
        if live is None:
            raise errors.UnknownTopicOrPartition("This server does not host this topic-partition.")
        limits = self.limits_of(key.group_id)
        self.write(live, live.queue.acknowledge(member, batches, limits, self.timers.now_ms()))

    def release(self, session: ShareSession) -> None:
        """Release the records that the member of an ended session holds."""
        for topic_id, partition, _ in session.partitions:
            live = self.live.get(ShareKey(session.group_id, UUID(bytes=topic_id), partition))
            if live is not None:
                limits = self.limits_of(session.group_id)
                try:
                    self.write(live, live.queue.release(session.member_id, limits))
                except KafkaError as error:
                    _logger.info(
                        "records not released, their locks run out group=%s member=%s reason=%s",
                        session.group_id,
                        session.member_id,
                        error,
                    )

    def end_session(self, group_id: str, member_id: str) -> None:
        """End a member's session, and release its records."""
        session = self.sessions.close(group_id, member_id)
        if session is not None:
            self.release(session)

    def connection_ended(self, session: ShareSession) -> None:
        """End a session whose connection has ended; after a group's last one, drop its queues."""
        group_id, member_id = session.group_id, session.member_id
        if self.sessions.find(group_id, member_id) is session:
            self.end_session(group_id, member_id)
        if not self.sessions.has_group(group_id):
            self.drop_group(group_id)

    def write(self, live: LiveQueue, change: Change) -> None:
        """Write a change of a queue, or take it back.

        Raises:
            KafkaError: It was not written.
        """
        if change.batches:
            try:
                self._write(live, change)
            except KafkaError as error:
                live.queue.undo(change)
                told = _told(error)
                if isinstance(told, (errors.NotLeaderOrFollower, *_TOLD)):
                    _logger.info("queue is fenced queue=%s reason=%s", live.key, error)
                    self.drop(live)
                raise told from error
            live.queue.advance()
            self._bury(live, change.dead)
        self.watch_locks(live)
        live.wake()

    def _write(self, live: LiveQueue, change: Change) -> None:
        queue = live.queue
        written = ShareState(
            queue.state_epoch,
            queue.start_offset,
            queue.delivery_complete_count,
            tuple(change.batches),
        )
        self.states.write(live.key, live.leader_epoch, written)

    def watch_locks(self, live: LiveQueue) -> None:
        """Let the timer of a queue fire when its next lock runs out."""
        deadline = live.queue.next_deadline
        if deadline is None:
            live.timer.cancel()
        elif live.timer.deadline is None or deadline < live.timer.deadline:
            live.timer.start(deadline - self.timers.now_ms(), lambda: self._expire(live))

    def _expire(self, live: LiveQueue) -> None:
        """Make records available whose locks have run out, even if that cannot be written."""
        limits = self.limits_of(live.key.group_id)
        change = live.queue.expire(self.timers.now_ms() + _ROUNDING_MS, limits)
        self._settle(live, change)
        self._bury(live, change.dead)
        self.watch_locks(live)

    def _settle(self, live: LiveQueue, change: Change) -> None:
        """Write a change that nobody waits for, and go on even if that fails."""
        if change.batches:
            try:
                self._write(live, change)
            except KafkaError as error:
                _logger.info("state not written queue=%s reason=%s", live.key, error)
            live.queue.advance()
        live.wake()

    def _bury(self, live: LiveQueue, dead: Sequence[Dead]) -> None:
        """Send dead letters; their records are archived when they are written, or given up."""
        for each in dead:
            if (live.key, each.first) not in self._on_the_way:
                self._on_the_way.add((live.key, each.first))
                letters = Letters(live.key, *each)
                self._dead_letters.get().send(letters, partial(self._archive, live, each))

    def _archive(self, live: LiveQueue, dead: Dead) -> None:
        """Archive records whose letters are written, also in a queue that was loaded again."""
        self._on_the_way.discard((live.key, dead.first))
        now = self.live.get(live.key, live)
        change = now.queue.finish_dead(dead)
        self._settle(now, change)

    def log_gone(self, live: LiveQueue) -> None:
        """Drop a queue whose topic is deleted; a log that was only cut has another start."""
        topic = self._topics.by_id.get(live.key.topic_id.bytes)
        if topic is None or self._topics.get_log(topic.name, live.key.partition) is not live.log:
            self.drop(live)
        else:
            live.log_changed()

    def drop(self, live: LiveQueue) -> None:
        """Stop using a queue; its next reader loads it again."""
        if self.live.get(live.key) is live:
            del self.live[live.key]
        live.close()

    def forget(self, key: ShareKey) -> None:
        """Stop using a queue, if it is in use, whose state was made again or deleted."""
        live = self.live.get(key)
        if live is not None:
            self.drop(live)

    def drop_group(self, group_id: str) -> None:
        """Stop using the queues of a group."""
        for live in [each for each in self.live.values() if each.key.group_id == group_id]:
            self.drop(live)

    def end_waiting(self) -> None:
        """Answer all fetches that wait, and let no other wait: the broker stops."""
        self.is_closed = True
        for live in self.live.values():
            for waiter in tuple(live.waiters):
                waiter.end()

    def close(self) -> None:
        """Stop using all queues: the broker stops."""
        for live in list(self.live.values()):
            self.drop(live)


def _told(error: KafkaError) -> KafkaError:
    """Return the error of the share coordinator as a client is told it."""
    if isinstance(error, _NOT_AVAILABLE):
        return errors.CoordinatorNotAvailable(error.own_message)
    if isinstance(error, _FENCED):
        return errors.NotLeaderOrFollower(error.own_message)
    if isinstance(error, _TOLD):
        return error
    return errors.UnknownServerError(error.own_message)
