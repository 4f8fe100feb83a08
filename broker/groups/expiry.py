"""Deleting unused offsets (KIP-211), groups that have nothing else, and offsets of deleted topics.

One walk over the groups, in slices, looks for the offsets of all topics that were deleted since the
last walk. Until the walk ends, the registry keeps the names of these topics, also on the disk, so
that the next start walks again. A new topic may have such a name at the same time: `Offsets` tells
its offsets from those of the deleted topic. (Kafka: ``GroupCoordinator.onPartitionsDeleted``.)
"""

import logging
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.group import Group
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.coordinator.group_records import NO_EXPIRY, read_offset
from siltstone.protocol.errors import KafkaError

_logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000


def expire(owner: GroupCoordinator) -> Iterator[None]:
    """Delete what has expired, one group at each step, so that others are served in between."""
    before = owner.offsets.expired_count
    groups = 0
    for group_id in dict.fromkeys([*owner.groups, *owner.offsets]):
        try:
            owner.check(group_id)
            group = owner.find(group_id)
            if group is not None:
                groups += expire_group(owner, group)
        except KafkaError as error:
            line = "offsets not expired group=%s reason=%s"
            owner.unwritten.warn(_logger, line, group_id, error)
        yield
    count = owner.offsets.expired_count - before
    if count or groups:
        _logger.info("offsets expired offsets=%d groups=%d", count, groups)


def expire_group(owner: GroupCoordinator, group: Group) -> bool:
    """Delete the expired offsets of one group; then the group, if nothing is left of it.

    A share group has queues; it stays until a client deletes it.

    Returns:
        Whether the group is gone.

    Raises:
        KafkaError: The journal did not take the records; the next run tries the rest again.
    """
    offsets = owner.offsets
    now_ms = owner.clock.now_ms()
    expired = list(_find_expired(owner, group, now_ms))
    offsets.expired_count += owner.delete_offsets(group, expired)
    if not group.is_empty or group.group_id in offsets or group.type == "share":
        return False
    owner.delete(group)
    return True


def _find_expired(owner: GroupCoordinator, group: Group, now_ms: int) -> Iterator[tuple[str, int]]:
    retention_ms = owner.settings.server.offsets_retention_minutes * _MINUTE_MS
    offsets = owner.offsets
    for topic, partitions in offsets.topics(group.group_id).items():
        for partition, stored in partitions.items():
            committed = read_offset(stored)
            since = group.expiry_base(topic, committed)
            if since is None:
                continue
            expiry = committed.expire_timestamp
            if expiry == NO_EXPIRY:
                expiry = since + retention_ms
            if now_ms >= expiry and not offsets.is_pending(group.group_id, topic, partition):
                yield topic, partition


class DeletedTopics:
    """The deleted topics of which groups still have offsets (loop only).

    `forget` begins a walk once the offsets of all groups are known, and after each deletion; if a
    walk is under way, another walk follows it. If the journal refuses a deletion, or could not be
    read, it is tried again when offsets expire, and at the next start.
    """

    def __init__(self, owner: GroupCoordinator) -> None:
        self._owner = owner
        self._is_walking = False
        owner.topics.on_delete(lambda _: self.forget())

    def forget(self) -> None:
        """Start to delete the offsets."""
        if not self._is_walking and self._owner.loaded.is_set() and self._owner.topics.retired:
            self._is_walking = True
            self._owner.start_task(self._run(), "offsets of deleted topics")

    async def _run(self) -> None:
        topics = self._owner.topics
        left: set[UUID] = set()
        try:
            while deleted := {
                name: topic_id
                for name, topic_id in topics.retired.copy().items()
                if topic_id not in left
            }:
                if not await self._walk_and_release(deleted):
                    left.update(deleted.values())
        finally:
            self._is_walking = False

    async def _walk_and_release(self, deleted: Mapping[str, UUID]) -> bool:
        if not await self._walk(deleted.keys()) or self._owner.journal.has_failed:
            return False  # what could not be read may have offsets, too
        try:
            # The tombstones must be durable before the catalogue drops the names of deleted topics.
            await self._owner.journal.flush_everything()
            await self._owner.topics.release(deleted)
        except KafkaError as error:
            _logger.warning("names of deleted topics are kept: %s", error)
            return False
        return True

    async def _walk(self, names: AbstractSet[str]) -> bool:
        """Delete the offsets; tell whether the journal took all deletions."""
        offsets = self._owner.offsets
        is_whole = True
        share = LoopShare()
        for group_ids in offsets.find_groups(names):
            await share.rest()
            for group_id in group_ids:
                try:
                    group = self._owner.find(group_id)
                    if group is not None:
                        offsets.delete_old(group_id, group.partition, names)
                except KafkaError as error:
                    is_whole = False
                    line = "offsets not deleted group=%s reason=%s"
                    self._owner.unwritten.warn(_logger, line, group_id, error)
                await share.rest()
        return is_whole
