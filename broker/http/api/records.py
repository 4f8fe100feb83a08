"""``/api/records``: some records of a partition, for a person to look at.

The last ones, those from an offset or a time on, or the last ones with a key. An answer looks
through some MiB at most and says how far it came, so that the next question can go on from there.
Records of aborted transactions and markers are left out.

An io thread reads the bytes; the loop opens them a record at a time, in shares.
"""

import codecs
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone.broker.http.api.questions import SHARE_SECONDS, BadQuestion, Question, shown
from siltstone.broker.http.credentials import Reader
from siltstone.broker.http.values import Admission, HttpRequest
from siltstone.broker.process.fair_places import FairPlaces
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import READ, TOPIC
from siltstone.broker.services import Services
from siltstone.config.listeners import is_loopback
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.committed import find_committed
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.log.log import Log

MAX_RECORDS: Final = 200
MAX_HEADERS: Final = 20
MAX_OFFSET: Final = (1 << 63) - 1
SHOWN_BYTES: Final = 4096
"""How much of a key or a value is shown."""
SHOWN_OF_HEADERS: Final = 256
"""How much of a header's name, and of its value, is shown."""
WINDOW_BYTES: Final = 1 << 20
LOOKED_BYTES: Final = 16 << 20
"""How much of a log one answer looks through, beside the last batch."""
BATCH_BYTES: Final = 16 << 20
"""The largest batch that is opened."""

_GROWTH: Final = 8
_AT_ONCE: Final = 2
_PLACES = ("offset", "time_ms", "before")

Shown: TypeAlias = dict[str, Any]
"""A record in the form of the answer."""


class RecordReaders:
    """Decides to which readers records are shown: those that may read them as Kafka's clients."""

    def __init__(self, services: Services, admission: Admission) -> None:
        self._services = services
        self._admission = admission

    def check(self, request: HttpRequest, topic: str) -> None:
        """Refuse a reader that may not see the records of a topic.

        Raises:
            BadQuestion: The reader may not; the text says what it would need.
        """
        if self._admission.is_trusted(request.headers):
            return
        server = self._services.settings.server
        if not server.http_remote_records and not is_loopback(server.http_address[0]):
            raise BadQuestion(
                "records are shown on loopback and with the control token; set "
                "http.remote.records=true to show them here",
                status=403,
            )
        name = self._admission.find_name(request)
        if name is None and not server.takes_strangers:
            raise BadQuestion(
                "records are for clients that log in, or that show a certificate, since every "
                "listener of this broker asks for it; use the control token",
                status=403,
            )
        rights = self._services.security.rights_of(Reader.of(request, name))
        if rights is not None and not rights.may(READ, TOPIC, topic):
            raise BadQuestion(f"this needs the right READ on topic {shown(topic)}", status=403)


class RecordPages:
    """``/api/records`` (loop only)."""

    def __init__(self, services: Services, readers: RecordReaders) -> None:
        self._services = services
        self._readers = readers
        self._places = FairPlaces(_AT_ONCE)

    async def some(self, request: HttpRequest) -> dict[str, Any]:
        """Return records of a partition, and which offsets were looked through for them."""
        question = Question(request, ("topic", "partition", "key", "limit", *_PLACES))
        name = question.wanted("topic")
        given = [each for each in _PLACES if question.text(each)]
        if len(given) > 1 or (question.text("key") and given and given != ["before"]):
            raise BadQuestion(
                "/api/records takes one of offset, time_ms and before, and with key only before"
            )
        self._readers.check(request, name)
        log = self._find_log(name, question)
        host = request.peer.rpartition(":")[0]
        await self._places.take(host)
        try:
            return await self._look(log, question)
        except KafkaError as error:
            raise BadQuestion(f"{log.topic_partition} cannot be read: {error}", 503) from error
        finally:
            self._places.release()

    def _find_log(self, name: str, question: Question) -> Log:
        topic = self._services.topics.topics.get(name)
        if topic is None:
            raise BadQuestion(f"there is no topic {shown(name)} here", status=404)
        index = question.number("partition", 0, 0, max(0, topic.partitions - 1))
        log = topic.logs[index]
        if log is None:
            raise BadQuestion(f"partition {index} of {shown(name)} is offline", status=503)
        return log

    async def _look(self, log: Log, question: Question) -> dict[str, Any]:
        end = log.last_stable_offset
        limit = question.number("limit", 50, 1, MAX_RECORDS)
        look = Look(log, self._services.io, end, question.text("key").encode() or None)
        if question.text("offset"):
            records = await look.forward(question.number("offset", 0, 0, MAX_OFFSET), limit)
        elif question.text("time_ms"):
            time_ms = question.number("time_ms", 0, 0, MAX_OFFSET)
            found = await self._services.io.run(log.find_offset_by_timestamp, time_ms, end)
            records = await look.forward(end if found is None else found.offset, limit)
        else:
            records = await look.backward(question.number("before", end, 0, MAX_OFFSET), limit)
        return {
            "now_ms": self._services.clock.now_ms(),
            "topic": log.topic_partition.topic,
            "partition": log.topic_partition.partition,
            "log_start_offset": log.log_start_offset,
            "end_offset": end,
            "from_offset": look.first,
            "next_offset": look.next,
            "records": records,
        }


class _Chunk(NamedTuple):
    """Whole batches, the offset after them, and the aborted transactions among them."""

    octets: bytes
    next_offset: int
    aborted: list[tuple[int, int]]


class Look:
    """Looks through a log up to ``end``, for records with a key if one is given.

    ``first`` and ``next`` are the range of offsets that was looked through. Of a record is kept
    what is shown: a compressed batch may be a thousand times as large once it is open.
    """

    def __init__(self, log: Log, io: IoThreads, end: int, key: bytes | None = None) -> None:
        self.first = self.next = end
        self._log = log
        self._io = io
        self._end = end
        self._key = key
        self._left = LOOKED_BYTES
        self._share = LoopShare(SHARE_SECONDS)

    async def forward(self, offset: int, limit: int) -> list[Shown]:
        """Return the first records from an offset on.

        Raises:
            KafkaError: The log cannot be read.
        """
        self.first = self.next = min(max(offset, self._log.log_start_offset), self._end)
        found: list[Shown] = []
        while self.next < self._end and self._left > 0:
            chunk = await self._io.run(self._read, self.next, self._end)
            if chunk is None:
                break
            async for record in self._open(chunk, self.next, self._end):
                if len(found) == limit:
                    return found
                found.append(record)
                self.next = record["offset"] + 1
            self.next = chunk.next_offset
        return found

    async def backward(self, before: int, limit: int) -> list[Shown]:
        """Return the last records below an offset, in their order.

        Windows of offsets are read, each before the one before and wider, since a compacted log has
        few records among many offsets. A window with more bytes than it may have is tried narrower.

        Raises:
            KafkaError: The log cannot be read.
        """
        start = self._log.log_start_offset
        self.first = self.next = min(max(before, start), self._end)
        found: list[Shown] = []
        width, upto = limit, self._end
        while self.first > start and len(found) < limit and self._left > 0:
            left = self._left
            begin = max(start, self.first - width)
            chunks = await self._read_range(begin, self.first, upto)
            if chunks is None:
                width = max(1, width // _GROWTH)
                continue
            if chunks:
                begin = max(start, min(begin, BatchHeader.read(chunks[0].octets).base_offset))
            for chunk in reversed(chunks):
                last: deque[Shown] = deque(maxlen=limit)
                async for record in self._open(chunk, begin, self.first):
                    last.append(record)
                found[:0] = last
            self.first = upto = begin
            half_windows = WINDOW_BYTES // 2 * width // max(1, left - self._left)
            width = max(1, min(width * _GROWTH, half_windows))
        if len(found) >= limit:
            del found[: len(found) - limit]
            self.first = found[0]["offset"]
        return found

    async def _read_range(self, begin: int, end: int, upto: int) -> list[_Chunk] | None:
        """Return the batches of a range, or None if it has more bytes than a window.

        ``upto`` is ``end`` if no batch has offsets on both sides of it, otherwise the log's end.
        """
        chunks: list[_Chunk] = []
        offset, size = begin, 0
        while offset < end:
            if size >= WINDOW_BYTES and begin < end - 1:
                return None
            chunk = await self._io.run(self._read, offset, upto)
            if chunk is None:
                break
            size += len(chunk.octets)
            chunks.append(chunk)
            offset = chunk.next_offset
        return chunks

    def _read(self, offset: int, upto: int) -> _Chunk | None:
        """Return whole batches from an offset on. Blocks: io thread."""
        read = self._log.read(offset, WINDOW_BYTES, upto)
        if read is None:
            return None
        if read.slice.size > max(WINDOW_BYTES, BATCH_BYTES):
            raise BadQuestion(
                f"the batch at offset {offset} has {read.slice.size} bytes, and a page opens "
                f"{BATCH_BYTES}; use siltstone consume",
                status=413,
            )
        octets = read.segment.read(read.slice.position, read.slice.size)
        self._left -= len(octets)
        aborted = self._log.aborted_transactions(offset, read.next_offset)
        return _Chunk(octets, read.next_offset, aborted)

    async def _open(self, chunk: _Chunk, begin: int, end: int) -> AsyncIterator[Shown]:
        for _, batch in find_committed(chunk.octets, chunk.aborted):
            if batch is None:
                continue
            for record in iterate_records(batch):
                await self._share.rest()
                if begin <= record.offset < end and self._key in (None, record.key):
                    yield describe(record)


def describe(record: Record) -> Shown:
    """Return a record in the form of the answer."""
    headers = record.headers[:MAX_HEADERS]
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": show(record.key),
        "value": show(record.value),
        "headers": [[show(each, SHOWN_OF_HEADERS) for each in header] for header in headers],
        "more_headers": len(record.headers) - len(headers),
    }


def show(octets: bytes | None, most: int = SHOWN_BYTES) -> dict[str, Any] | None:
    """Return the size of a key or value, and its beginning: as text, or as hex without UTF-8."""
    if octets is None:
        return None
    beginning = octets[:most]
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(beginning, final=len(beginning) == len(octets))
    except UnicodeDecodeError:
        return {"size": len(octets), "hex": beginning.hex()}
    return {"size": len(octets), "text": text}
