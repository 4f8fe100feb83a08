"""Deleting unused offsets, groups that have nothing else (KIP-211), and offsets of deleted topics.

All topics that were deleted meanwhile are looked for in one walk over the groups, in slices. Until
it is over the registry keeps their names, on the disk too, and a start walks again. A new topic of
such a name may be used meanwhile: `Offsets` tells what is committed for it from the rest. (Kafka:
``GroupCoordinator.onPartitionsDeleted``.)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.coordinator.group_records import NO_EXPIRY, read_offset
from siltstone.protocol.errors import KafkaError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from uuid import UUID

    from siltstone.broker.groups.group import Group
    from siltstone.broker.groups.owner import Owner

_logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000


def expire(owner: Owner) -> Iterator[None]:
    """Delete what has expired, a group at each step, so that others are served in between."""
    before = owner.offsets.expired_count
    groups = 0
    for group_id in {*owner.groups, *owner.offsets}:
        try:
            owner.check(group_id)
            group = owner.find(group_id)
            if group is not None:
                groups += expire_group(owner, group)
        except KafkaError as error:
            _logger.warning("offsets not expired group=%s reason=%s", group_id, error)
        yield
    count = owner.offsets.expired_count - before
    if count or groups:
        _logger.info("offsets expired offsets=%d groups=%d", count, groups)


def expire_group(owner: Owner, group: Group) -> bool:
    """Delete the expired offsets of one group; then the group, if nothing is left of it.

    Returns:
        Whether the group is gone.

    Raises:
        KafkaError: The journal did not take it; what was not deleted is tried next time.
    """
    offsets = owner.offsets
    now_ms = owner.clock.now_ms()
    expired = list(_find_expired(owner, group, now_ms))
    offsets.expired_count += owner.delete_offsets(group, expired)
    if not group.is_empty or group.group_id in offsets:
        return False
    owner.delete(group)
    return True


def _find_expired(owner: Owner, group: Group, now_ms: int) -> Iterator[tuple[str, int]]:
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
    """The topics whose offsets groups still have (loop only); ``loaded`` tells when all are known.

    `forget` begins a walk unless one is under way, which then does not end before another one.
    What the journal did not take is tried again when offsets expire, and at the next start.
    """

    def __init__(self, owner: Owner, loaded: asyncio.Event) -> None:
        self._owner = owner
        self._loaded = loaded
        self._is_walking = False

    def forget(self) -> None:
        """Have the offsets deleted soon."""
        if not self._is_walking and self._loaded.is_set() and self._owner.topics.retired:
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
        if not await self._walk(deleted.keys()):
            return False
        try:
            await self._owner.topics.release(deleted)
        except KafkaError as error:
            _logger.warning("names of deleted topics are kept: %s", error)
            return False
        return True

    async def _walk(self, names: AbstractSet[str]) -> bool:
        """Delete the offsets; tell whether the journal took all of it."""
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
                    _logger.warning("offsets not deleted group=%s reason=%s", group_id, error)
                await share.rest()
        return is_whole
