"""ShareAcknowledge (79), versions 1-2: a member says what became of its records (KIP-932).

v2 renewal of locks (KIP-1222), and the lock's time in the answer. What is said of one partition
counts as a whole, once it is written, or not at all.
"""

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.partition import Acknowledged, AcknowledgeType
from siltstone.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from siltstone.protocol.messages.share_fetch import ShareFetchRequest

Partition: TypeAlias = tuple[bytes, int]
Said: TypeAlias = dict[Partition, tuple[int, str | None]]
"""The answers to acknowledgements: an error code and its message, by topic id and partition."""

_MAX_MEMBER_ID = 36
_FIRST_WITH_RENEWAL = 2


async def handle(
    context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Take the acknowledgements of each partition, and answer when they are written."""
    host = context.services.share_partitions()
    try:
        group_id, member_id = check_request(context, request.group_id, request.member_id)
        epoch = request.share_session_epoch
        if epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpoch
        if epoch == FINAL_EPOCH:
            host.sessions.get(group_id, member_id)
        else:
            host.sessions.advance(group_id, member_id, epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    said = await acknowledge_all(context, group_id, member_id, request, LoopShare())
    if epoch == FINAL_EPOCH:
        host.end_session(group_id, member_id)
    topics: dict[bytes, list[PartitionData]] = {}
    for (topic_id, partition), (code, message) in said.items():
        topics.setdefault(topic_id, []).append(PartitionData(partition, code, message))
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=host.limits_of(group_id).lock_ms,
        responses=[ShareAcknowledgeTopicResponse(*each) for each in topics.items()],
    )


def check_request(
    context: RequestContext, group_id: str | None, member_id: str | None
) -> tuple[str, str]:
    """Return the ids of a request's group and member if it may read for them.

    Raises:
        KafkaError: Share groups are switched off, an id is missing, or the client has no right.
    """
    if not context.services.features.level("share.version"):
        raise errors.UnsupportedVersion
    if group_id is None:
        raise errors.InvalidRequest
    if not context.may(READ, GROUP, group_id):
        raise errors.GroupAuthorizationFailed
    if not member_id or len(member_id) > _MAX_MEMBER_ID:
        raise errors.InvalidRequest
    return group_id, member_id


async def acknowledge_all(
    context: RequestContext,
    group_id: str,
    member_id: str,
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    share: LoopShare,
) -> Said:
    """Take all acknowledgements of a request; return what became of them, partition by partition.

    Partitions without any are among the answers if at least one other was taken, as in Kafka.
    """
    said: Said = {}
    empty: list[Partition] = []
    taken: list[ShareKey] = []
    for topic_id, partitions in request.topics:
        for partition, batches in partitions:
            where = topic_id, partition
            code = _find_fault(context, where, batches, is_renewal=request.is_renew_ack)
            if code:
                said[where] = code, None
            elif batches:
                taken.append(ShareKey(group_id, UUID(bytes=topic_id), partition))
                said[where] = _take(context, taken[-1], member_id, batches)
            else:
                empty.append(where)
            await share.rest()
    await _flush(context, taken, said, share)
    if taken:
        said.update(dict.fromkeys(empty, (0, None)))
    return said


def _find_fault(
    context: RequestContext,
    where: Partition,
    batches: Sequence[Acknowledged],
    *,
    is_renewal: bool,
) -> int:
    """Return the error of a partition that is not looked at; 0 without one."""
    topics = context.services.topics
    topic = topics.by_id.get(where[0])
    can_renew = context.version >= _FIRST_WITH_RENEWAL
    highest = AcknowledgeType.RENEW if can_renew else AcknowledgeType.REJECT
    if topic is None:
        return ErrorCode.unknown_topic_id
    if not _are_valid(batches, highest, is_renewal=is_renewal):
        return ErrorCode.invalid_request
    if not context.may(READ, TOPIC, topic.name):
        return ErrorCode.topic_authorization_failed
    is_known = topics.get_log(*where) is not None
    return ErrorCode.none if is_known else ErrorCode.unknown_topic_or_partition


def _take(
    context: RequestContext,
    key: ShareKey,
    member_id: str,
    batches: Sequence[Acknowledged],
) -> tuple[int, str | None]:
    try:
        context.services.share_partitions().acknowledge(key, member_id, batches)
    except KafkaError as error:
        return error.code, error.message
    return 0, None


async def _flush(
    context: RequestContext, taken: list[ShareKey], said: Said, share: LoopShare
) -> None:
    """Wait until what was written is on the disk, where flush.messages asks for that."""
    states = context.services.share_states()
    for key in taken:
        where = key.topic_id.bytes, key.partition
        due = states.find_unwritten(key)
        if due and not said[where][0]:
            try:
                await share.wait_for(states.flush(due))
            except KafkaError as error:
                said[where] = ErrorCode.coordinator_not_available, error.own_message


def _are_valid(batches: Sequence[Acknowledged], highest: int, *, is_renewal: bool) -> bool:
    """Tell whether ranges are forward and in order, each with one type or one for each record."""
    before = -1
    for first, last, types in batches:
        if first > last or first < before or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if min(types) < 0 or max(types) > highest:
            return False
        if AcknowledgeType.RENEW in types and not is_renewal:
            return False
        before = last
    return True
