"""Deleting unused offsets, groups that have nothing else (KIP-211), and offsets of deleted topics.

All topics that were deleted meanwhile are looked for in one walk over the groups, in slices. Until
it is over the registry keeps their names, on the disk too, and makes no topic of such a name: so
offsets of a new topic are not taken for those of the old one, and a start walks again. (Kafka:
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
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

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
        try:
            while names := frozenset(topics.retired):
                await self._walk(names)
                topics.release(names)
        finally:
            self._is_walking = False

    async def _walk(self, names: AbstractSet[str]) -> None:
        offsets = self._owner.offsets
        share = LoopShare()
        for group_ids in offsets.find_groups(names):
            await share.rest()
            for group_id in group_ids:
                named = offsets.list_of_topics(group_id, names)
                group = self._owner.find(group_id) if named else None
                if group is not None:
                    try:
                        self._owner.delete_offsets(group, named)
                    except KafkaError as error:
                        _logger.warning("offsets not deleted group=%s reason=%s", group_id, error)
                await share.rest()
