"""The common Produce request; compiled by Cython.

The types of C stand in ``_produce_kernels.pxd``.
"""

from typing import TYPE_CHECKING, Any

import cython

from siltstone.broker.security.rights import TOPIC, TRANSACTIONAL_ID, WRITE
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.names import INTERNAL_TOPICS

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.protocol.core._format import (
        acquire,
        field_of,
        no_region,
        read_int16,
        release,
        slot_of,
    )
    from siltstone.protocol.records.batch import ATTRIBUTES_POSITION, TRANSACTIONAL
    from siltstone.protocol.topic_key import FIRST_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from siltstone.broker.net import _dispatch_kernels as dispatch_kernels
    from siltstone.protocol.messages.produce import (
        ProduceRequest,
        ProduceResponse,
        TopicProduceData,
    )
    from siltstone.storage.log.log import Log

    Produced = ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | None
    GoOn = Callable[
        [dispatch_kernels.RequestContext, ProduceRequest, list[Any], list[Any], KafkaError | None],
        Produced,
    ]
    Judge = Callable[[dispatch_kernels.RequestContext, ProduceRequest], Produced]


AT_ONCE = 500
"""Of a request with more partitions others are served in between."""

_NO_LEADER = (-1, -1)


class PlainProduce:
    """Serves requests whose batches break no rule; ``go_on`` serves the others.

    ``judge`` serves a request of which the client may not do everything.
    """

    __slots__ = ("_go_on", "_judge")

    def __init__(self, go_on: "GoOn", judge: "Judge") -> None:
        self._go_on = go_on
        self._judge = judge

    def handle(
        self, context: "dispatch_kernels.RequestContext", request: "ProduceRequest"
    ) -> "Produced":
        """Append what the client may, and answer."""
        if context.rights is not None and not _may_all(context, request):
            return self._judge(context, request)
        return self.append(context, request)

    def append(
        self, context: "dispatch_kernels.RequestContext", request: "ProduceRequest"
    ) -> "Produced":
        """Append inline and answer; return a coroutine if a batch must be opened or flushed first.

        Nearly every batch breaks no rule and is its producer's next: `append_all` appends those.
        """
        produced: list[Any] = []
        unflushed: list[Any] = []
        error = None
        try:
            if _append_plain(context, request, produced, unflushed) and not unflushed:
                return (produced, 0, ()) if request.acks else None  # type: ignore[return-value]
        except KafkaError as refusal:
            error = refusal
        return self._go_on(context, request, produced, unflushed, error)


def _may_all(context: "dispatch_kernels.RequestContext", request: "ProduceRequest") -> bool:
    """Tell whether the client may append all that a request has; few topics are looked at."""
    topics = request.topic_data
    if len(topics) > AT_ONCE:
        return False
    if is_transactional(topics):
        transactional_id = request.transactional_id
        if transactional_id is None or not context.sees(WRITE, TRANSACTIONAL_ID, transactional_id):
            return False
    by_id = context.version >= FIRST_WITH_TOPIC_ID
    known = context.rooms.topics.by_id
    for row in topics:
        name = row.name
        if by_id:
            topic = known.get(row.topic_id)
            if topic is None:
                continue
            name = topic.name
        if not context.sees(WRITE, TOPIC, name):
            return False
    return True


def is_transactional(topics: "Sequence[TopicProduceData]") -> bool:
    """Tell whether a batch of some topics says that it belongs to a transaction."""
    region = no_region()
    found = False
    for row in topics:
        for partition in field_of(row, 2):
            records = field_of(partition, 1)
            if records is not None:
                acquire(records, region)
                found = (
                    region.len >= ATTRIBUTES_POSITION + 2
                    and read_int16(region.buf, ATTRIBUTES_POSITION) & TRANSACTIONAL != 0
                )
                release(region)
                if found:
                    return True
    return found


def _append_plain(
    context: "dispatch_kernels.RequestContext",
    request: "ProduceRequest",
    produced: "list[tuple[str, bytes, list[Any]]]",
    unflushed: "list[Any]",
) -> bool:
    """Append all, if nothing about the request as a whole asks for another way."""
    version = context.version
    topics = request.topic_data
    count = count_once(topics, 1 if version >= FIRST_WITH_TOPIC_ID else 0)
    if count < 0 or count > AT_ONCE or not may_be_plain(request.acks, version):
        return False
    rooms = context.rooms
    registry = rooms.topics
    if version >= FIRST_WITH_TOPIC_ID:
        topics = registry.name_all(topics)
    return append_all(registry.logs, topics, rooms.clock.now_ms(), produced, unflushed)


def may_be_plain(acks: int, version: int) -> bool:
    """Tell whether `append_all` may append anything of such a request."""
    return -1 <= acks <= 1 and version >= 7  # the first with zstd


def count_once(topics: "Sequence[TopicProduceData]", key: int) -> int:
    """Count the partitions of a request; -1: one comes twice, or a topic does or has none.

    ``key`` is the column of a topic by which it is told from others.
    """
    if len(topics) > 1 and len({field_of(topic, key) for topic in topics}) < len(topics):
        return -1
    total = 0
    for topic in topics:
        partitions = field_of(topic, 2)
        count = len(partitions)
        if count != 1 and (not count or len({field_of(each, 0) for each in partitions}) < count):
            return -1
        total += count
    return total


def append_all(
    logs: "Mapping[tuple[str, int], Log]",
    topics: "Sequence[TopicProduceData]",
    now_ms: int,
    produced: "list[tuple[str, bytes, list[Any]]]",
    unflushed: "list[Any]",
) -> bool:
    """Append a client's batches, from the first without an answer in ``produced`` on.

    A topic is its name, its id and its partitions, each an index and its records; in ``produced``
    it has answers for partitions: index, no error, base offset, no append time, log start offset,
    no record errors, no message, no leader. ``unflushed`` gets the logs to be flushed before it.

    Returns:
        Whether that was all; False: the first without an answer needs a closer look.

    Raises:
        KafkaStorageError: The first without an answer could not be written.
    """
    number = max(len(produced) - 1, 0)
    while number < len(topics):
        topic = topics[number]
        name = field_of(topic, 0)
        partitions = field_of(topic, 2)
        if number == len(produced):
            produced.append((name, field_of(topic, 1), []))
        rows = field_of(produced[number], 2)
        place = len(rows)
        count = len(partitions)
        while place < count:
            index = field_of(partitions[place], 0)
            records = field_of(partitions[place], 1)
            log = logs.get((name, index))
            if log is None or records is None or name in INTERNAL_TOPICS:
                return False
            end = slot_of(log, "end")
            base_offset = end.take(log, records, now_ms)
            if base_offset < 0:
                return False
            rows.append((index, 0, base_offset, -1, end.log_start_offset, (), None, _NO_LEADER))
            if end.is_flush_due() and log not in unflushed:
                unflushed.append(log)
            place += 1
        number += 1
    return True
