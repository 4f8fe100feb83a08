"""Produce (0), versions 3-13: one batch per partition, validated, stamped and appended.

v3 record batches only (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8 record errors
(KIP-467) · v9 compact encoding · v10 current leader (KIP-951) · v12 transactions without a second
request (KIP-890) · v13 topic ids (KIP-516). acks=0 gets no answer; the connection is closed if a
partition fails.

Differs from Kafka: a compressed batch is opened only where a rule needs its records
([0002](decisions/0002-compressed-batches-stay-closed.md)), so a batch with wrong records or a wrong
max timestamp is stored, and of timestamps out of bounds only the first record's is reported; a
batch that cannot be opened is answered CORRUPT_MESSAGE, and an unknown codec INVALID_RECORD, where
Kafka answers UNKNOWN_SERVER_ERROR; a partition without records is refused, where Kafka never
answers.

The append is a write to the page cache and runs on the loop: passing it to a thread costs more than
the write. Fsyncs, and large compressed batches that must be opened, do run on threads. A request is
served from top to bottom: its version says how partitions are named; the client's rights are
checked (`handle`); each batch is checked (`Produce._append`), appended (`Produce._store`) and
answered with the result (`answer`). All of that is one call, unless a thread must open a batch
first, an fsync is needed, or there are very many partitions.
"""

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

cimport cython

from siltstone.broker.context cimport RequestContext, Unwritten
from siltstone.protocol.core._format cimport (
    ATTRIBUTES_POSITION, TRANSACTIONAL, Region, acquire, field_of, no_region, read_int16, release,
)
from siltstone.storage.appending.batch cimport ValidatedBatch
from siltstone.storage.clock cimport Clock
from siltstone.storage.log.end cimport LogEnd

from siltstone.broker.handlers.authorized import split_many, split_topics, weave
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import TOPIC, TRANSACTIONAL_ID, WRITE
from siltstone.protocol.core.constants import CODEC_MASK
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    ProtocolError,
    RecordListTooLarge,
    RecordTooLarge,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages import AT_ONCE as READ_AT_ONCE
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
)
from siltstone.protocol.names import FIRST_WITH_TOPIC_ID, INTERNAL_TOPICS
from siltstone.protocol.records.compression import MAX_RATIO
from siltstone.storage.appending.validation import check_records, must_open, validate
from siltstone.storage.producers.checks import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.services import Services
    from siltstone.protocol.messages.produce import ProduceRequest

include "columns.pxi"  # made by the build from protocol/messages/columns.py

AT_ONCE = 500
"""If a request has more partitions, others are served in between."""

cdef Py_ssize_t MOST = AT_ONCE
cdef Py_ssize_t READ_MOST = READ_AT_ONCE
cdef int FIRST_BY_ID = FIRST_WITH_TOPIC_ID

cdef enum:
    PRODUCE = 0
    FIRST_WITH_ZSTD = 7

cdef enum:  # the results of `Produce._append_some`
    ALL
    SOME
    CLOSED  # the next batch must be opened by a thread

cdef frozenset ACKS = frozenset({-1, 0, 1})
cdef tuple WITHOUT_LOG_START = (
    CorruptMessage, KafkaStorageError, RecordListTooLarge, RecordTooLarge,
)
# Kafka counts all errors except these as its own failures (ReplicaManager.appendRecordsToLeader).
cdef tuple NOT_A_FAILURE = (*WITHOUT_LOG_START, UnknownTopicOrPartition)
cdef str ADMIN_CLIENT = "__admin_client"
# A batch that can unfold to more bytes is opened on a thread, since this takes longer than passing
# it there and back; 2 KB of hostile zstd held the loop for 47 ms. The tuple has the limit of the
# compressed size, by codec.
UNFOLDED_INLINE_BYTES = 256 * 1024
cdef tuple OPEN_INLINE_BYTES = (
    4 * 1024,
    *(UNFOLDED_INLINE_BYTES // ratio for ratio in MAX_RATIO[1:]),
    *(4 * 1024,) * 3,
)
cdef object CLIENT = Origin.CLIENT
cdef tuple NO_LEADER = (-1, -1)
cdef object STORED = memoryview(b"")  # replaces a batch's bytes, which the answer does not need


cpdef handle(
    RequestContext context: RequestContext[Services], object request: ProduceRequest
):  # -> ProduceResponse | Unwritten | Coroutine[Any, Any, ProduceResponse | None] | None
    """Append what the client's rights allow; answer now, or when waiting batches are written."""
    if context.rights is not None and not may_all(context, request):
        return judge(context, request)
    return serve(context, request, False)


cdef object serve(RequestContext context, object request, bint is_own):
    cdef Produce produce = Produce.__new__(Produce)  # __init__ costs as much as a read
    return produce.serve(context, request, is_own)


cdef bint may_all(RequestContext context, object request) except *:
    """Tell whether the client may write to all topics; False also for many topics."""
    cdef bint by_id = context.version >= FIRST_BY_ID
    topics = request.topic_data
    if len(topics) > MOST:
        return False
    if is_transactional(topics):
        transactional_id = request.transactional_id
        if transactional_id is None or not context.sees(WRITE, TRANSACTIONAL_ID, transactional_id):
            return False
    known = context.services.topics.by_id
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


cdef bint is_transactional(object topics) except *:
    """Tell whether a batch of some topics says that it belongs to a transaction."""
    cdef Region region = no_region()
    cdef bint found = False
    for row in topics:
        for partition in field_of(row, TOPIC_PARTITIONS):
            records = field_of(partition, PRODUCED_RECORDS)
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


def judge(RequestContext context, request):
    """Append what the client's rights allow, and refuse the rest.

    A transactional batch also needs the right to its transactional id.

    Raises:
        ProtocolError: acks=0, and the client has no right to any partition.
    """
    cdef bint by_id = context.version >= FIRST_BY_ID
    topics = request.topic_data
    if is_transactional(topics):
        name = request.transactional_id
        if name is None or not context.may(WRITE, TRANSACTIONAL_ID, name):
            if request.acks == 0:
                raise closing(TransactionalIdAuthorizationFailed)
            return refuse_all(topics, TransactionalIdAuthorizationFailed())
    if size_of(topics) > MOST:
        return judge_many(context, request._replace(topic_data=copy_of(topics)), by_id)
    permitted, refused = split_topics(context, WRITE, topics, by_id=by_id)
    if not refused:
        return serve(context, request, False)
    denial = TopicAuthorizationFailed()
    rows = {
        place: (each.name, each.topic_id, refuse(each.partition_data, denial))
        for place, each in refused.items()
    }
    return append_permitted(context, request, permitted, rows, False)


async def judge_many(RequestContext context, request, bint by_id):
    """Do what `judge` does, and let others be served in between."""
    context.may_wait = False  # the round of its turn may have ended
    share = LoopShare()
    topics, refused = await split_many(context, WRITE, request.topic_data, share, by_id=by_id)
    answered = await refuse_many(refused.values(), TopicAuthorizationFailed(), share)
    rows = dict(zip(refused, answered, strict=True))
    answer = append_permitted(context, request, topics, rows, True)
    return await answer if isinstance(answer, Coroutine) else answer


async def refuse_all(topics, refusal):
    """Refuse a request, and let others be served in between."""
    return ProduceResponse(await refuse_many(topics, refusal, LoopShare()))


async def refuse_many(topics, refusal, share):
    """Return the refusals of topics, and let others be served in between."""
    cdef list refused = []
    convert = partial(refuse, refusal=refusal)
    for topic in topics:
        rows = await share.some(topic.partition_data, convert)
        refused.append((topic.name, topic.topic_id, rows))
    return refused


cdef object append_permitted(
    RequestContext context, object request, object topics, dict rows, bint is_own
):
    """Append these topics; ``rows`` has the refusals of the others by their places."""
    if not rows:
        return serve(context, request, is_own)
    if topics:
        context.may_wait = False  # its answer is joined with the refusals
        answer = serve(context, request._replace(topic_data=topics), is_own)
        return append_beside(request, answer, rows)
    if request.acks == 0:
        raise closing(TopicAuthorizationFailed)
    return ProduceResponse(list(rows.values()))


async def append_beside(request, answer, dict refused):
    """Answer with the results of the append and the refusals.

    Raises:
        ProtocolError: acks=0: to close the connection is the only way to refuse.
    """
    if isinstance(answer, Coroutine):
        answer = await answer
    if answer is None:
        raise closing(TopicAuthorizationFailed)
    responses, *_ = answer
    return ProduceResponse(weave(responses, refused, len(request.topic_data)))


def refuse(partitions, refusal):
    """Return the answers of partitions of which none is appended."""
    code, message = refusal.code.value, refusal.message
    return [(each.index, code, -1, -1, -1, (), message, NO_LEADER) for each in partitions]


cdef object closing(object error):
    return ProtocolError(f"acks=0 and the request failed with {error.code.name.upper()}")


@cython.final
cdef class Produced:
    """A topic of the answer: its name, its id and a row for each partition so far.

    A row is the `ValidatedBatch` that was appended, or the answer of a batch that was refused.
    """

    cdef object name, topic_id
    cdef list rows


@cython.final
cdef class Produce(Unwritten):
    """One request while it is served."""

    cdef object _request, _services, _transaction
    cdef dict _logs
    cdef list _produced, _topics, _unflushed
    cdef long long _acks, _now_ms
    cdef bint _by_id
    cdef bint _has_names  # whether a topic's name identifies it
    cdef bint _is_gathered  # whether one came twice or is empty, or there are too many to know
    cdef bint _is_own  # whether no other request overwrites the bytes of this one
    cdef bint _is_plain  # whether its version and acks allow that batches are checked all at once
    cdef bint _is_refused, _may_wait, _waits

    cdef object serve(self, RequestContext context, object request, bint is_own):
        """Append all; return the response, or an object that gives it later.

        ``is_own`` says that no other request overwrites this request's bytes, however long it
        takes.
        """
        cdef int version = context.version
        cdef Clock clock = context.services.clock
        cdef Py_ssize_t count = -1
        self.context = context
        self._request = request
        self._services = context.services
        self._acks = request.acks
        self._topics = request.topic_data
        self._logs = self._services.topics.logs
        self._now_ms = clock.now_ms()
        self._by_id = version >= FIRST_BY_ID
        self._is_plain = version >= FIRST_WITH_ZSTD and -1 <= self._acks <= 1
        self._has_names = True
        self._may_wait = context.may_wait
        self._is_own = is_own
        self._produced = []

        if size_of(self._topics) <= READ_MOST:
            count = count_once(self._topics, TOPIC_ID if self._by_id else TOPIC_NAME)
        self._is_gathered = count < 0
        if self._by_id and not self._is_gathered:
            self._topics = self._services.topics.name_all(self._topics)
        if count < 0 or count > MOST or self._append_some(MOST) != ALL:
            self._keep()
            return self._append_later()
        if self._unflushed:
            return self._flush(LoopShare())
        if not self._waits:
            return self.answer()
        if self._is_refused and not self._acks:
            self._write()  # the connection must serve nothing further
            return self.answer()
        self._topics = []  # many requests may wait, so each keeps only what its answer needs
        self._request = None
        return self

    cdef int _append_some(self, Py_ssize_t most) except -1:
        """Append at most ``most`` batches, beginning with the first partition that has no row yet.

        Returns:
            ALL, SOME, or CLOSED: the next batch must be opened by a thread.
        """
        cdef Py_ssize_t place, number = max(len(self._produced) - 1, 0)
        cdef list partitions
        cdef Produced topic
        while number < len(self._topics):
            wanted = self._topics[number]
            partitions = field_of(wanted, TOPIC_PARTITIONS)
            if number == len(self._produced):
                topic = Produced.__new__(Produced)
                topic.name = field_of(wanted, TOPIC_NAME)
                topic.topic_id = field_of(wanted, TOPIC_ID)
                topic.rows = []
                self._produced.append(topic)
            topic = self._produced[number]
            for place in range(len(topic.rows), len(partitions)):
                if not most:
                    return SOME
                partition = partitions[place]
                row = self._append(
                    topic, field_of(partition, PARTITION), field_of(partition, PRODUCED_RECORDS)
                )
                if row is None:
                    return CLOSED
                topic.rows.append(row)
                most -= 1
            number += 1
        return ALL

    cdef object _append(self, Produced topic, object index, object records):
        """Check a partition's batch and append it; return its row, None if it must be opened first.

        All rules are checked at once, since nearly every batch obeys them. If this check fails, the
        batch is checked rule by rule to find out what is wrong.
        """
        cdef LogEnd end
        cdef ValidatedBatch batch
        name = topic.name
        log = self._logs.get((name, index)) if self._has_names else None
        try:
            if log is None:
                log = self._find_log(topic, index)
                name = log.topic_partition.topic
            if self._is_plain and records is not None and name not in INTERNAL_TOPICS:
                end = log.end
                batch = end.rules.take(records, self._now_ms)
                if batch is not None:
                    return self._store(log, index, batch)
            whole = self._check(log, records)
        except KafkaError as error:
            return self._refuse(index, error)
        max_bytes = OPEN_INLINE_BYTES[whole[ATTRIBUTES_POSITION + 1] & CODEC_MASK]
        if len(whole) > max_bytes and must_open(whole, log.config):
            return None
        try:
            batch = validate(whole, log.config, self._now_ms)
        except KafkaError as error:
            return self._refuse(index, error, log)
        return self._store(log, index, batch)

    cdef object _find_log(self, Produced topic, object index):
        """Return the log of a partition.

        Raises:
            KafkaError: It does not exist, or it cannot be served.
        """
        return self._services.topics.find_log(topic.topic_id if self._by_id else topic.name, index)

    cdef object _check(self, object log, object records):
        """Make the checks that do not read the records; return the single batch."""
        whole = check_records(records, self.context.version)
        if self._acks not in ACKS:
            raise InvalidRequiredAcks
        topic = log.topic_partition.topic
        if topic in INTERNAL_TOPICS and self.context.client_id != ADMIN_CLIENT:
            raise InvalidTopic(f"{topic} is internal; clients may not produce to it")
        return whole

    cdef object _store(self, object log, object index, ValidatedBatch batch):
        """Append a valid batch, if its transaction accepts it; return its row."""
        cdef LogEnd end
        batch.partition = index
        if batch.attributes & TRANSACTIONAL:
            try:
                self._admit(log, batch)
            except KafkaError as error:
                return self._refuse(index, error)
        if batch.error is None:
            end = log.end
            end.append(log, batch, CLIENT, self._may_wait)
        if batch.error is not None:
            return self._say(batch)
        if batch.base_offset < 0:
            self._waits = True
            return batch
        batch.buffer = STORED
        if batch.flush_due:
            self._unflushed = self._unflushed or []
            if log not in self._unflushed:
                self._unflushed.append(log)
        return batch

    cdef _admit(self, object log, ValidatedBatch batch):
        """Check a transactional batch against its transaction, and a first one against its log.

        Raises:
            KafkaError: The transaction does not accept the batch.
        """
        if self._transaction is None:
            # Most clients use no transactions: the import must not delay the first ack.
            from siltstone.broker.transactions.producing import TransactionalProduce

            self._transaction = TransactionalProduce(
                self._services.transactions(),
                self._services.topics,
                self._request,
                self.context.version,
            )
        self._transaction.admit(log, batch)
        try:
            self._transaction.check_first(log, batch)
        except KafkaError as error:
            batch.log = log
            batch.error = error

    cdef _write(self):
        """Write the batches that wait, before the end of the round."""
        cdef Produced topic
        for topic in self._produced:
            for row in topic.rows:
                if isinstance(row, ValidatedBatch) and row.is_awaited:
                    row.log.end.write(row.log)

    cdef _keep(self):
        """Copy the records that are not appended yet: other requests reuse the receive buffer."""
        cdef Py_ssize_t done = 0
        cdef Produced topic
        for topic in self._produced:
            done += len(topic.rows)
        self._has_names = not self._by_id  # another topic may have the name by then
        self._may_wait = False
        if not self._is_own:
            self._topics = copy_of(self._topics, done)

    async def _append_later(self):
        """Append on the loop; open large batches on threads, where codecs release the GIL."""
        cdef Produced topic
        cdef int come
        share = LoopShare()
        if self._is_gathered:
            self._topics = await gather(self._topics, self.context.version, share)
        while True:
            await share.rest()
            come = self._append_some(1)
            if come == ALL:
                return await self._flush(share)
            if come == CLOSED:
                topic = self._produced[len(self._produced) - 1]
                topic.rows.append(await self._open_and_append(topic))

    async def _open_and_append(self, Produced topic):
        """Let a thread check the topic's next batch; then append it and return its row."""
        index, records = self._topics[len(self._produced) - 1].partition_data[len(topic.rows)]
        log = self._find_log(topic, index)
        whole = self._check(log, records)
        try:
            batch = await self._services.io.unpack(validate, whole, log.config, self._now_ms)
        except KafkaError as error:
            return self._refuse(index, error, log)
        try:  # the topic may have been deleted, or created again, meanwhile
            if self._find_log(topic, index) is not log:
                raise UnknownTopicOrPartition
        except KafkaError as error:
            return self._refuse(index, error)
        return self._store(log, index, batch)

    async def _flush(self, share):
        """Wait for the fsyncs that ``flush.messages`` asks for before answering."""
        cdef Py_ssize_t place
        cdef Produced topic
        self._write()  # the batches may still wait for the end of the round
        for log in self._unflushed or ():
            try:
                await self._services.io.run(log.flush)
            except KafkaError as error:  # no batch of that log is durable
                for topic in self._produced:
                    for row in topic.rows:
                        if isinstance(row, ValidatedBatch) and row.log is log and not row.error:
                            row.error = error
        for topic in self._produced:
            for place in range(len(topic.rows)):
                self._finish(topic, place)
                await share.rest()
        return self.answer()

    cpdef answer(self):
        """Return the response with the result of each partition; None for acks=0.

        Raises:
            ProtocolError: acks=0 and a partition failed: to close is the only possible signal.
        """
        cdef Py_ssize_t place
        cdef Produced topic
        cdef list responses = []
        for topic in self._produced:
            for place in range(len(topic.rows)):
                self._finish(topic, place)
            if self._is_gathered:
                topic.rows = last_of_each(topic.rows)
            responses.append((topic.name, topic.topic_id, topic.rows))
        if not self._acks:
            self._check_all()
            return None
        return responses, 0, ()  # a bare tuple of the fields of ProduceResponse

    cdef _finish(self, Produced topic, Py_ssize_t place):
        """Put the answer of a partition in the place of its batch."""
        if isinstance(topic.rows[place], ValidatedBatch):
            topic.rows[place] = self._say(topic.rows[place])

    cdef object _say(self, ValidatedBatch batch):
        """Return the answer of a partition with the result of its batch."""
        error = batch.error
        index = batch.partition
        if error is None:
            if batch.base_offset < 0:
                raise RuntimeError(f"a batch of {batch.log.topic_partition} is not written yet")
            base_offset, append_time = batch.base_offset, batch.log_append_time_ms
            return (
                index, 0, base_offset, append_time, batch.log_start_offset, (), None, NO_LEADER
            )
        batch.error = None  # its traceback may hold the batch, and so the bytes of a whole frame
        if isinstance(error, KafkaError):
            return self._refuse(index, error, batch.log)
        raise error

    cdef object _refuse(self, object index, object error, object log=None):
        """Return the answer of a partition that was not appended, and count it.

        ``log`` is the log that refused the batch; None if the batch was refused before.
        """
        cdef bint is_told = log is not None and not isinstance(error, WITHOUT_LOG_START)
        self._is_refused = True
        self.context.stats.refused_batch(error)
        if log is not None and not isinstance(error, NOT_A_FAILURE):
            topic = self._services.topics.topics.get(log.topic_partition.topic)
            if topic is not None:
                topic.failed_produces += 1
        return PartitionProduceResponse(
            index,
            error.code.value,
            base_offset=-1,
            log_start_offset=log.log_start_offset if is_told else -1,
            record_errors=list(error.record_errors),
            error_message=error.message,
        )

    cdef _check_all(self):
        """Count the failures of a request that gets no answer, and raise the first one."""
        cdef Produced topic
        first = None
        for topic in self._produced:
            for row in topic.rows:
                code = field_of(row, ERROR_CODE)
                if not code:
                    continue
                self.context.stats.by_key[PRODUCE].failed(code)
                if first is None:
                    name = topic.topic_id.hex() if self._by_id else topic.name
                    first = f"partition {field_of(row, PARTITION)} of {name} failed with error {code}"
        if first is not None:
            raise ProtocolError(f"acks=0 and {first}")


cpdef Py_ssize_t count_once(list topics: Sequence[TopicProduceData], Py_ssize_t key) except? -2:
    """Count the partitions of a request; -1 if one or a topic repeats, or a topic has none.

    ``key`` is the column that identifies a topic: its name or its id.
    """
    cdef Py_ssize_t total = 0, count
    cdef list partitions
    if len(topics) > 1 and len({field_of(topic, key) for topic in topics}) < len(topics):
        return -1
    for topic in topics:
        partitions = field_of(topic, TOPIC_PARTITIONS)
        count = len(partitions)
        if count != 1 and (
            not count or len({field_of(each, PARTITION) for each in partitions}) < count
        ):
            return -1
        total += count
    return total


async def gather(topics, int version, share):
    """Return each topic once; of a partition's rows keep the last batch and the last non-batch.

    The non-batch comes second: the last result of a partition is its answer.
    """
    cdef dict gathered = {}, rows
    cdef list once = [], last, kept
    for name, topic_id, partitions in topics:
        if partitions:
            rows = gathered.setdefault((name, topic_id), {})
        for row in partitions:
            index, records = row
            last = rows.setdefault(index, [None, None])
            last[is_no_batch(records, version)] = row
            await share.rest()
        await share.rest()
    for name, topic_id in list(gathered):
        rows = gathered.pop((name, topic_id))
        kept = []
        for last in rows.values():
            kept += [row for row in last if row is not None]
            await share.rest()
        once.append(TopicProduceData(name, topic_id, kept))
    return once


cdef Py_ssize_t size_of(object topics) except -1:
    """Return how many topics and partitions there are."""
    cdef Py_ssize_t size = len(topics)
    for topic in topics:
        size += len(field_of(topic, TOPIC_PARTITIONS))
    return size


cdef list copy_of(object topics, Py_ssize_t done=0):
    """Copy topics with their records out of the receive buffer, which other requests reuse.

    The first ``done`` partitions are copied without records. A request of so many elements that it
    was read in steps has a buffer of its own, so its topics are returned as they are.
    """
    cdef list kept = []
    if size_of(topics) > READ_MOST:
        return list(topics)
    for name, topic_id, partitions in topics:
        copied = []
        for index, records in partitions:
            if done or records is None:
                copied.append(PartitionProduceData(index, None))
            else:
                copied.append(PartitionProduceData(index, memoryview(bytearray(records))))
            done -= done > 0
        kept.append(TopicProduceData(name, topic_id, copied))
    return kept


cdef list last_of_each(list rows):
    """Return the last row of each partition."""
    return list({field_of(row, PARTITION): row for row in rows}.values())


cdef bint is_no_batch(object records, int version) except *:
    if not records:
        return True
    try:
        check_records(records, version)
    except KafkaError:
        return True
    return False
