"""Offsets of deleted topics are deleted (Kafka: ``GroupCoordinator.onPartitionsDeleted``).

All topics that were deleted meanwhile are looked for in one walk over the groups, in slices. Until
it is over the registry keeps their names, on the disk too, and makes no topic of such a name: so
offsets of a new topic are not taken for those of the old one, and a start walks again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import KafkaError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Set as AbstractSet

    from siltstone.broker.groups.owner import Owner

log = logging.getLogger(__name__)


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
        for group_ids in offsets.by_shard():
            for group_id in group_ids:
                named = offsets.list_of_topics(group_id, names)
                group = self._owner.find(group_id) if named else None
                if group is not None:
                    try:
                        self._owner.delete_offsets(group, named)
                    except KafkaError as error:
                        log.warning("offsets not deleted group=%s reason=%s", group_id, error)
                await share.rest()
