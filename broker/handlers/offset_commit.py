"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.groups.commit_kernels import commit
from protocol.errors import KafkaError
from protocol.messages.offset_commit import OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from broker.context import RequestContext
    from broker.groups.coordinator import GroupCoordinator
    from protocol.messages.offset_commit import OffsetCommitRequest

    Results = list[tuple[str, bytes, list[tuple[int, int]]]]


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Commit and answer; return a coroutine if the journal must be flushed first."""
    rooms = context.rooms
    groups = rooms.groups
    results = commit(rooms, groups, context.version, request)
    return _flush(groups, results) if groups.log.unflushed else _answer(results)


async def _flush(groups: GroupCoordinator, results: Results) -> OffsetCommitResponse:
    """Wait for the fsyncs that ``flush.messages`` of the journal asks for."""
    try:
        await groups.log.flush()
    except KafkaError as error:
        results = [
            (name, topic_id, [(index, before or error.code) for index, before in codes])
            for name, topic_id, codes in results
        ]
    return _answer(results)


def _answer(results: Any) -> OffsetCommitResponse:
    return OffsetCommitResponse(0, results)
