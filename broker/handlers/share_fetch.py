"""ShareFetch (78), versions 1-2: a member of a share group acquires records (KIP-932).

v2 acquire modes (KIP-1206) and renewal of locks (KIP-1222). Acknowledgements may come with a fetch;
they count before it waits. Membership in the group is not checked, as in Kafka: the share session
is.

Differs from Kafka: a batch size below 1 counts as 1; a session is refused, too, if all share
sessions together would have more partitions than fetch.session.partitions.max.count; if max_bytes
cannot be divided evenly, the first partitions get one byte more each, where in Kafka one gets all
that is left, by chance; records of aborted transactions do not hold the start of the queue until
the next acknowledgement; if all records of a range are done, and no other is in flight, naming it
again is INVALID_RECORD_STATE, where Kafka may answer UNKNOWN_SERVER_ERROR; a fetch that waits is
answered at once when its partition is deleted; records that are released with a fetch may be given
by that same fetch; records before the start of the log are not given, where Kafka, while older ones
are in flight, gives those of the batch in which DeleteRecords has ended.
"""

import asyncio
from uuid import UUID

from siltstone.broker.handlers.share_acknowledge import (
    Partition,
    Said,
    acknowledge_all,
    check_request,
)
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.share.fetching import ShareFetch
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.live import LiveQueue
from siltstone.broker.share.partition import Wish
from siltstone.broker.share.partitions import SharePartitions
from siltstone.broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ReadPartition,
    ShareSession,
    next_epoch,
)
from siltstone.config.consumer_groups import READ_COMMITTED
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_RECORD_LIMIT = 1
Rows = dict[Partition, PartitionData]


async def handle(context: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    """Take the acknowledgements, acquire records or wait for some, and answer."""
    try:
        group_id, member_id = check_request(context, request.group_id, request.member_id)
        if request.is_renew_ack:
            _check_renewal(request)
        fetch = _Fetch(context, request, group_id, member_id)
        session = await fetch.find_session()
    except errors.ShareSessionLimitReached as error:
        await asyncio.sleep(_seconds(context, request))
        return ShareFetchResponse(error_code=error.code)
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code)
    return await fetch.answer(session)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Refuse a renewal that also wants records."""
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise errors.InvalidRequest


def _seconds(context: RequestContext, request: ShareFetchRequest) -> float:
    """Return for how many seconds the request may wait: not beyond the end of the login."""
    seconds = request.max_wait_ms / 1000
    client = context.connection
    return max(0.0, seconds if client is None else min(seconds, client.login_seconds))


class _Fetch:
    """One request while it is served."""

    def __init__(
        self, context: RequestContext, request: ShareFetchRequest, group_id: str, member_id: str
    ) -> None:
        self.context = context
        self.request = request
        self.group_id = group_id
        self.member_id = member_id
        self.host: SharePartitions = context.services.share_partitions()
        self.share = LoopShare()
        self.says = any(
            each.acknowledgement_batches for topic in request.topics for each in topic.partitions
        )

    async def find_session(self) -> ShareSession:
        """Open, continue or find the session of the request.

        Raises:
            KafkaError: The epoch, or what comes with it, is wrong; or there is no room.
        """
        epoch, sessions = self.request.share_session_epoch, self.host.sessions
        if epoch == FINAL_EPOCH:
            return sessions.get(self.group_id, self.member_id)
        wanted = []
        for topic in self.request.topics:
            for each in topic.partitions:
                wanted.append(self._name(topic.topic_id, each.partition_index))
                await self.share.rest()
        if epoch == INITIAL_EPOCH:
            if self.says:
                raise errors.InvalidRequest
            client = self.context.connection
            session = sessions.open(self.group_id, self.member_id, wanted, client)
            if client is not None:
                client.at_end("share session", lambda: self.host.connection_ended(session))
            return session
        session = sessions.advance(self.group_id, self.member_id, epoch)
        sessions.update(
            session,
            wanted,
            (
                self._name(topic.topic_id, index)
                for topic in self.request.forgotten_topics_data
                for index in topic.partitions
            ),
        )
        return session

    def _name(self, topic_id: bytes, partition: int) -> ReadPartition:
        topic = self.context.services.topics.by_id.get(topic_id)
        return ReadPartition(topic_id, partition, None if topic is None else topic.name)

    async def answer(self, session: ShareSession) -> ShareFetchResponse:
        """Serve the request in its session."""
        request, epoch = self.request, self.request.share_session_epoch
        said: Said = {}
        if self.says:
            said = await acknowledge_all(
                self.context, self.group_id, self.member_id, request, self.share
            )
        rows: dict[ReadPartition, PartitionData] = {}
        if epoch != FINAL_EPOCH and not request.is_renew_ack:
            rows = await self._fetch(session)
        tells_all = epoch in {INITIAL_EPOCH, FINAL_EPOCH}
        if not tells_all and session.epoch != next_epoch(epoch):  # a later request has come
            return ShareFetchResponse(error_code=errors.InvalidShareSessionEpoch.code)
        told: Rows = {}
        for each in tuple(rows):
            row = rows.pop(each)
            if tells_all or session.tells(
                each, has_records=bool(len(row.records)), has_failed=bool(row.error_code)
            ):
                told[each.topic_id, each.partition] = row
            await self.share.rest()
        _add_said(told, said)
        if epoch == FINAL_EPOCH:
            self.host.end_session(self.group_id, self.member_id)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self.host.limits_of(self.group_id).lock_ms,
            responses=_by_topic(told),
        )

    async def _fetch(self, session: ShareSession) -> dict[ReadPartition, PartitionData]:
        """Read the partitions of the session, from another one on in each request."""
        rows: dict[ReadPartition, PartitionData] = {}
        readable = []
        for each in tuple(session.partitions):
            if self._may_read(each, rows):
                readable.append(each)
            await self.share.rest()
        request = self.request
        if not (readable and request.max_records and request.max_bytes):
            return rows
        first = request.share_session_epoch % len(readable)
        places: list[ReadPartition] = []
        queues: list[LiveQueue] = []
        if not self.host.states.loaded.is_set():
            await self._wait_for_states()
        for each in readable[first:] + readable[:first]:
            key = ShareKey(self.group_id, UUID(bytes=each.topic_id), each.partition)
            try:
                queues.append(await self.host.open(key))
                places.append(each)
            except KafkaError as error:
                rows[each] = PartitionData(each.partition, error.code.value)
            await self.share.rest()
        if queues and request.max_bytes > 0:
            fetch = self._make_fetch(queues)
            await fetch.serve(_seconds(self.context, request), self.share)
            rows.update((places[place], row) for place, row in fetch.rows.items())
        elif queues:
            code = ErrorCode.unknown_server_error
            rows.update((each, PartitionData(each.partition, code)) for each in places)
        return rows

    def _may_read(self, each: ReadPartition, rows: dict[ReadPartition, PartitionData]) -> bool:
        """Tell whether a partition exists and may be read; if not, note its error."""
        if each.topic is None:
            code = ErrorCode.unknown_topic_id
        elif not self.context.may(READ, TOPIC, each.topic):
            code = ErrorCode.topic_authorization_failed
        elif self.context.services.topics.get_log(each.topic, each.partition) is None:
            code = ErrorCode.unknown_topic_or_partition
        else:
            return True
        rows[each] = PartitionData(each.partition, code)
        return False

    async def _wait_for_states(self) -> None:
        """Wait until the states of queues are read back, as long as the client waits."""
        seconds = _seconds(self.context, self.request)
        waiting = asyncio.wait_for(self.host.states.loaded.wait(), seconds)
        try:
            await self.share.wait_for(waiting)
        except TimeoutError:
            return

    def _make_fetch(self, queues: list[LiveQueue]) -> ShareFetch:
        request, settings = self.request, self.context.services.settings
        level = settings.group_config(self.group_id).share_isolation_level
        is_limited = request.share_acquire_mode == _RECORD_LIMIT
        return ShareFetch(
            self.host,
            queues,
            Wish(self.member_id, request.max_records, request.batch_size, is_limited),
            self.host.limits_of(self.group_id),
            max_bytes=min(request.max_bytes, settings.server.fetch_max_bytes),
            min_bytes=request.min_bytes,
            is_committed=level == READ_COMMITTED,
        )


def _add_said(rows: Rows, said: Said) -> None:
    """Add what became of the acknowledgements to the rows of their partitions."""
    for partition, (code, message) in said.items():
        row = rows.get(partition, PartitionData(partition[1]))
        rows[partition] = row._replace(
            acknowledge_error_code=code, acknowledge_error_message=message
        )


def _by_topic(rows: Rows) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, list[PartitionData]] = {}
    for (topic_id, _), row in rows.items():
        topics.setdefault(topic_id, []).append(row)
    return [ShareFetchableTopicResponse(*each) for each in topics.items()]
