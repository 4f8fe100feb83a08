"""A member of a share group in a test: it talks to the broker's handlers, without a connection."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from siltstone.broker.handlers import share_acknowledge, share_fetch
from siltstone.broker.share.key import ShareKey
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.messages.share_acknowledge import (
    AcknowledgementBatch as SaidOfRange,
)
from siltstone.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from siltstone.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from siltstone.storage.log.log import Log
from tests.support.services import ServicesOnDisk

GROUP = "workers"
Ranges = Sequence[tuple[int, int, Sequence[int]]]


async def make_queue(
    home: ServicesOnDisk, name: str = "jobs", *, group: str = GROUP, start: int = 0
) -> tuple[Topic, Log]:
    """Create a topic of one partition, and the state of its queue."""
    topic = home.services.topics.find(name)
    if topic is None:
        topic = await home.services.topics.create(name, 1, {})
    states = home.services.share_states()
    await states.ensure_created()
    states.initialize(ShareKey(group, UUID(bytes=topic.key), 0), 1, start)
    log = home.services.topics.find_log(name, 0)
    return topic, log


class ShareMember:
    """One member with its session."""

    def __init__(self, home: ServicesOnDisk, topics: Sequence[Topic], name: str = "m") -> None:
        self.home = home
        self.topics = topics
        self.name = name
        self.epoch = 0

    async def fetch(
        self,
        *,
        acknowledged: Ranges = (),
        version: int = 2,
        forgotten: Sequence[Topic] = (),
        **fields: Any,
    ) -> ShareFetchResponse:
        """Send a fetch with the next epoch; in a first one, name all topics."""
        batches = [AcknowledgementBatch(*each) for each in acknowledged]
        named = self.topics if self.epoch == 0 or batches else ()
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_records=fields.pop("max_records", 500),
            batch_size=fields.pop("batch_size", 500),
            topics=[FetchTopic(topic.key, [FetchPartition(0, batches)]) for topic in named],
            forgotten_topics_data=[ForgottenTopic(topic.key, [0]) for topic in forgotten],
        )._replace(**fields)
        response = await share_fetch.handle(self.home.context(78, version), request)
        self._went_on(response.error_code)
        return response

    def fetch_later(self, **fields: Any) -> asyncio.Task[ShareFetchResponse]:
        """Begin a fetch that waits."""
        asked = {"max_wait_ms": 60_000, "min_bytes": 1, **fields}
        return asyncio.ensure_future(self.fetch(**asked))

    async def acquire(self, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch, and return what was acquired: first and last offset, and the delivery count."""
        return acquired(await self.fetch(**fields))

    async def acknowledge(
        self, first: int, last: int, types: Sequence[int], *, version: int = 2, **fields: Any
    ) -> int:
        """Say what became of records, and return the error code of the partition."""
        response = await self.say([(first, last, types)], version=version, **fields)
        return response.error_code or response.responses[0].partitions[0].error_code

    async def say(
        self, ranges: Ranges, *, version: int = 2, **fields: Any
    ) -> ShareAcknowledgeResponse:
        """Send acknowledgements with the next epoch."""
        batches = [SaidOfRange(*each) for each in ranges]
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=[
                AcknowledgeTopic(topic.key, [AcknowledgePartition(0, batches)])
                for topic in self.topics
            ],
        )._replace(**fields)
        response = await share_acknowledge.handle(self.home.context(79, version), request)
        self._went_on(response.error_code)
        return response

    async def close(self) -> None:
        """End the session."""
        self.epoch = -1
        await self.fetch(max_records=0)
        self.epoch = 0

    def _went_on(self, error_code: int) -> None:
        if not error_code and self.epoch >= 0:
            self.epoch += 1


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    """Return all that was acquired: first and last offset, and the delivery count."""
    assert not response.error_code
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]
