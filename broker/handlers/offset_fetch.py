"""OffsetFetch (9), versions 1-10: what groups have committed.

v2 all topics · v5 leader epoch (KIP-320) · v7 require stable (KIP-447) · v8 several groups
(KIP-709) · v9 member epochs (KIP-848) · v10 topic ids. A partition without an offset, or of an
unknown topic, is no error: its offset is -1.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from siltstone.broker.groups.group_offsets import list_committed
from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import GroupIdNotFound, UnstableOffsetCommit
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages import NO_ID, offset_fetch
from siltstone.protocol.names import FIRST_OFFSETS_WITH_TOPIC_ID

_FIRST_WITH_GROUP_ERROR = 2
_FIRST_WITH_GROUPS = 8


async def handle(
    context: RequestContext, request: offset_fetch.OffsetFetchRequest
) -> offset_fetch.OffsetFetchResponse:
    """Answer for every group of the request; before version 8 a request has one group."""
    share = LoopShare()
    if context.version >= _FIRST_WITH_GROUPS:
        groups = [await _fetch(context, request, each, share) for each in request.groups]
        return offset_fetch.OffsetFetchResponse(groups=groups)
    topics: Any = request.topics
    if topics is not None:
        topics = await share.each(topics, lambda topic: (topic[0], NO_ID, topic[1]))
    wanted = offset_fetch.OffsetFetchRequestGroup(request.group_id, topics=topics)
    _, found, code = await _fetch(context, request, wanted, share)
    answered: Any = await share.each(found, lambda topic: (topic[0], topic[2]))
    return offset_fetch.OffsetFetchResponse(topics=answered, error_code=code)


async def _fetch(
    context: RequestContext,
    request: offset_fetch.OffsetFetchRequest,
    wanted: offset_fetch.OffsetFetchRequestGroup,
    share: LoopShare,
) -> offset_fetch.OffsetFetchResponseGroup:
    await share.rest()
    group_id, member_id, member_epoch, topics = wanted
    if not context.may(DESCRIBE, GROUP, group_id):
        return await _refuse(context.version, wanted, errors.GroupAuthorizationFailed.code, share)
    groups = context.services.groups()
    try:
        groups.check(group_id)
        group = groups.find(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
    except GroupIdNotFound:
        pass  # answered like a group without offsets
    except KafkaError as error:
        return await _refuse(context.version, wanted, error.code, share)
    lookup = _Lookup(
        context.services.topics, groups.offsets, group_id, require_stable=request.require_stable
    )
    has_ids = context.version >= FIRST_OFFSETS_WITH_TOPIC_ID
    found: Any
    if topics is None:
        found = []
        for row in lookup.find_all(has_ids=has_ids):
            if context.sees(DESCRIBE, TOPIC, row[0]):
                found.append(row)
            await share.rest()
    else:
        found = await _fetch_topics(context, lookup, topics, share, has_ids=has_ids)
    return offset_fetch.OffsetFetchResponseGroup(group_id, found)


async def _fetch_topics(
    context: RequestContext,
    lookup: "_Lookup",
    topics: Sequence[Any],
    share: LoopShare,
    *,
    has_ids: bool,
) -> list[Any]:
    """Return the offsets of topics: unknown topics come later, as in Kafka, refused ones last."""
    if has_ids:
        topics = sorted(topics, key=lookup.is_unknown)
    found: list[Any] = []
    refused: list[Any] = []
    for name, topic_id, indexes in topics:
        answered = found
        find: Callable[[Sequence[int]], Sequence[Any]]
        find = partial(lookup.find_by_id, topic_id) if has_ids else partial(lookup.find, name)
        called = lookup.name_of(topic_id) if has_ids else name
        if called is not None and not context.may(DESCRIBE, TOPIC, called):
            answered, find = refused, _hide
        answered.append((name, topic_id, await share.some(indexes, find)))
    return found + refused


async def _refuse(
    version: int, wanted: offset_fetch.OffsetFetchRequestGroup, code: int, share: LoopShare
) -> offset_fetch.OffsetFetchResponseGroup:
    """Return the error of a group; version 1 has error codes only for partitions."""
    topics: Any = []
    if version < _FIRST_WITH_GROUP_ERROR:
        for name, topic_id, indexes in wanted.topics or ():
            rows = await share.each(indexes, lambda index: _row(index, code))
            topics.append((name, topic_id, rows))
            await share.rest()
    return offset_fetch.OffsetFetchResponseGroup(wanted.group_id, topics, code)


def _hide(indexes: Sequence[int]) -> list[offset_fetch.OffsetFetchResponsePartition]:
    return [_row(index, errors.TopicAuthorizationFailed.code) for index in indexes]


def _row(index: int, code: int) -> offset_fetch.OffsetFetchResponsePartition:
    """Return the row of a partition that is refused, with the reason as its code."""
    return offset_fetch.OffsetFetchResponsePartition(index, -1, -1, "", code)


class _Lookup:
    """Looks up offsets of one group; other requests may change them between two look-ups."""

    __slots__ = ("_group_id", "_offsets", "_registry", "_require_stable")

    def __init__(
        self, registry: TopicRegistry, offsets: Offsets, group_id: str, *, require_stable: bool
    ) -> None:
        self._registry = registry
        self._offsets = offsets
        self._group_id = group_id
        self._require_stable = require_stable

    def is_unknown(self, wanted: tuple[str, bytes, Sequence[int]]) -> bool:
        """Tell whether the request names a topic by an id that no topic has."""
        return wanted[1] not in self._registry.by_id

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None if no topic has the id."""
        topic = self._registry.by_id.get(topic_id)
        return None if topic is None else topic.name

    def find(self, name: str, indexes: Sequence[int]) -> Sequence[Any]:
        """Return the offsets of these partitions."""
        found = list_committed(self._offsets.of_topic(self._group_id, name), indexes)
        if not self._require_stable or not self._offsets.has_pending(self._group_id):
            return found
        is_pending = self._offsets.is_pending
        return [
            _row(row[0], UnstableOffsetCommit.code)
            if is_pending(self._group_id, name, row[0])
            else row
            for row in found
        ]

    def find_by_id(self, topic_id: bytes, indexes: Sequence[int]) -> Sequence[Any]:
        """Return the offsets of partitions of a topic by its id, if a topic has it."""
        topic = self._registry.by_id.get(topic_id)
        if topic is None:
            return [_row(index, errors.UnknownTopicId.code) for index in indexes]
        return self.find(topic.name, indexes)

    def find_all(self, *, has_ids: bool) -> Iterator[tuple[str, bytes, Sequence[Any]]]:
        """Yield all offsets; a version with ids leaves out topics that no longer exist."""
        for name in list(self._offsets.topics(self._group_id)):
            partitions = self._offsets.of_topic(self._group_id, name)
            if not partitions:
                continue  # deleted meanwhile
            topic_id = NO_ID
            if has_ids:
                topic = self._registry.topics.get(name)
                if topic is None:
                    continue
                topic_id = topic.key
            yield name, topic_id, self.find(name, list(partitions))
