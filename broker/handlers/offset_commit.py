"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.groups._group_kernels import commit
from siltstone.broker.net.slices import ELEMENTS, Slices
from siltstone.broker.process.loop_share import LoopShare, finish, finish_in_shares
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.offset_commit import OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.offset_commit import OffsetCommitRequest

    Results = Sequence[tuple[str, bytes, Sequence[tuple[int, int]]]]
    Lists = list[tuple[str, bytes, list[tuple[int, int]]]]

_SLICES = Slices("topics", nested="partitions")


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Commit and answer; return a coroutine if the journal must be flushed first."""
    topics = request.topics
    is_one = len(topics) == 1 and len(topics[0].partitions) <= ELEMENTS
    if not is_one and _SLICES.is_large(request):
        return _handle_large(context, request)
    rooms = context.rooms
    groups = rooms.groups()
    results: Results
    results, is_any_unknown = commit(rooms, groups, context.version, request)
    if is_any_unknown:
        results = finish(_merge(results))
    return _flush(groups, results) if groups.journal.unflushed else _answer(results)


async def _handle_large(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Commit some partitions at a time; each batch of the journal is as if somebody had asked."""
    rooms = context.rooms
    groups = rooms.groups()
    share = LoopShare()
    lists: Lists = []
    is_any_unknown = False
    for piece, goes_on in _SLICES.cut(request):
        await share.rest()
        some, is_unknown = commit(rooms, groups, context.version, piece)
        is_any_unknown |= is_unknown
        if goes_on:
            (_, _, codes), *some = some
            lists[-1][2].extend(codes)
        lists += [(name, topic_id, list(codes)) for name, topic_id, codes in some]
    results: Any = lists
    if is_any_unknown:
        results = await finish_in_shares(_merge(results))
    return await _flush(groups, results) if groups.journal.unflushed else _answer(results)


async def _flush(groups: GroupCoordinator, results: Results) -> OffsetCommitResponse:
    """Wait for the fsyncs that ``flush.messages`` of the journal asks for."""
    try:
        await groups.journal.flush()
    except KafkaError as error:
        results = [
            (name, topic_id, [(index, before or error.code) for index, before in codes])
            for name, topic_id, codes in results
        ]
    return _answer(results)


def _answer(results: Any) -> OffsetCommitResponse:
    return tuple.__new__(OffsetCommitResponse, (0, results))  # its __new__ costs more than the read


def _merge(results: Results) -> Generator[None, None, Results]:
    """Return the codes of a topic that is there twice in one place.

    Kafka answers so, unless all partitions are there.
    """
    merged: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
    for name, topic_id, codes in results:
        merged.setdefault((name, topic_id), []).extend(codes)
        yield
    return [(*key, codes) for key, codes in merged.items()]
