"""Reads a split's records over the network, by Fetch, from any Kafka broker.

Raw batches go to the same decoder as those of files. The next request is under way while an answer
of some megabytes is decoded.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from siltstone.pipeline.client.cluster import Cluster, Leader
from siltstone.pipeline.client.watch import Watch
from siltstone.pipeline.client.wire import Exchange
from siltstone.pipeline.errors import CorruptLog, DataLost, SourceUnavailable
from siltstone.pipeline.options import EARLIEST, LAST_TIME, LATEST
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.aborted import AbortedIndex
from siltstone.pipeline.reading.decoder import Decoder
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.errors import ErrorCode, error_name
from siltstone.protocol.messages import fetch
from siltstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.clock import Clock
from siltstone.storage.producers.transaction_index import AbortedTransaction

FETCH_BYTES: Final = 8 << 20
WAIT_MS: Final = 500
_FETCH: Final = Exchange(fetch.REQUEST, fetch.RESPONSE, 12)
_RETRY_SECONDS: Final = 30.0
_TRANSIENT: Final = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.kafka_storage_error,
    ErrorCode.replica_not_available,
}


class Walked(NamedTuple):
    """The facts from the headers of an answer: the offset after it, and the control batches."""

    next_offset: int
    markers: list[tuple[int, int]]
    """Producer id and offset of each control batch."""


class FetchScan:
    """Reads one split. One thread, once."""

    def __init__(self, split: Split, columns: tuple[str, ...], scanned: Scanned) -> None:
        self._split = split
        self._scanned = scanned
        self._watch = Watch(split)
        self._clock = Clock()
        self._aborted = AbortedIndex(())
        is_aborted = self._is_aborted if split.rules.is_committed else None
        self._decoder = Decoder(split, columns, scanned, is_aborted)
        self._max_bytes = FETCH_BYTES

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records.

        Raises:
            PipelineError: they cannot be read.
        """
        with self._watch, Cluster(self._split.bootstrap, self._split.kafka) as cluster:
            leader = self._leader(cluster)
            offset = self._split.start_offset
            patience = self._clock.monotonic() + _RETRY_SECONDS
            is_sent = False
            while offset < self._split.end_offset:
                self._watch.look()
                wire = cluster.wire(leader.node)
                if not is_sent:
                    wire.send(_FETCH, self._request(offset))
                data = _only_partition(wire.take(_FETCH))
                is_sent = False
                if data.error_code in _TRANSIENT:
                    if self._clock.monotonic() > patience:
                        fault = error_name(data.error_code)
                        raise SourceUnavailable(
                            f"{self._split.topic_partition} cannot be read: {fault}"
                        )
                    cluster.forget(leader.node)
                    leader = self._leader(cluster)
                    continue
                patience = self._clock.monotonic() + _RETRY_SECONDS
                if data.error_code:
                    offset = self._moved(cluster, leader, data.error_code, offset)
                    continue
                self._watch.look_at_end(data.high_watermark)
                chunk = memoryview(data.records or b"")
                self._scanned.bytes_read += len(chunk)
                walked = _walk(chunk, offset)
                if walked.next_offset == offset:
                    if self._is_over(data, chunk):
                        return
                    continue
                offset = walked.next_offset
                if offset < self._split.end_offset:
                    wire.send(_FETCH, self._request(offset))
                    is_sent = True
                self._aborted = AbortedIndex(_intervals(data.aborted_transactions, walked.markers))
                yield from self._decode(chunk)

    def _decode(self, chunk: memoryview) -> Iterator[pa.RecordBatch]:
        while True:
            yield from self._decoder.decode(chunk, 0)
            fault = self._decoder.fault
            if fault is None:
                return
            if not self._split.rules.skips_corrupt:
                raise CorruptLog(
                    f"the broker sent a bad batch of {self._split.topic_partition} after offset "
                    f"{self._decoder.next_offset}: {fault.reason}; set onCorrupt=skip to go on "
                    "without it"
                )
            self._scanned.corrupt += 1
            self._decoder.pass_over()
            chunk = chunk[fault.position + fault.size :]

    def _leader(self, cluster: Cluster) -> Leader:
        """Return the partition's leader.

        Raises:
            DataLost: the topic is gone, or another one has its name.
        """
        key = self._split.topic_partition
        leader = cluster.leaders([key.topic]).get(key)
        if leader is None:
            raise DataLost(f"{key} is gone: the topic was deleted since the read was planned")
        if self._split.topic_id and leader.topic_id != self._split.topic_id:
            raise DataLost(
                f"topic {key.topic} was deleted and made again since the read was planned (topic "
                f"id {self._split.topic_id}, now {leader.topic_id}); begin again"
            )
        return leader

    def _request(self, offset: int) -> FetchRequest:
        partition = FetchPartition(
            partition=self._split.partition,
            fetch_offset=offset,
            partition_max_bytes=self._max_bytes,
        )
        topic = FetchTopic(topic=self._split.topic, partitions=[partition])
        return FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(self._split.rules.is_committed),
            topics=[topic],
        )

    def _moved(self, cluster: Cluster, leader: Leader, error_code: int, offset: int) -> int:
        """Return where reading goes on if the records at an offset are gone.

        Raises:
            PipelineError: reading cannot go on.
        """
        key = self._split.topic_partition
        if error_code != ErrorCode.offset_out_of_range:
            fault = error_name(error_code)
            raise SourceUnavailable(f"the broker does not let {key} be read: {fault}")
        first = cluster.offsets({key: leader}, EARLIEST)[key]
        end = cluster.offsets({key: leader}, LATEST)[key]
        if self._split.rules.fails_on_data_loss:
            raise DataLost(
                f"offset {offset} of {key} no longer exists: the log has {first} to {end}; "
                "begin elsewhere, or set failOnDataLoss=false to go on with what is left"
            )
        self._decoder.restart(first)
        return first if offset < first else self._split.end_offset

    def _is_over(self, data: Any, chunk: memoryview) -> bool:
        """Tell whether an answer without a whole batch means that the split is read.

        Raises:
            DataLost: the log ends before the split does.
        """
        if len(chunk) >= HEADER_SIZE:
            self._max_bytes = max(self._max_bytes, BatchHeader.read(chunk).size)
            return False
        end = self._split.end_offset
        bound = data.last_stable_offset if self._split.rules.is_committed else data.high_watermark
        if bound >= end or not self._split.rules.fails_on_data_loss:
            return True
        raise DataLost(
            f"{self._split.topic_partition} ends at {bound} and reached {end} before: it was cut "
            "or made again; begin again"
        )

    def _is_aborted(self, producer_id: int, offset: int) -> bool:
        return self._aborted(producer_id, offset)


def _only_partition(response: Any) -> Any:
    return response.responses[0].partitions[0]


def _walk(chunk: memoryview, offset: int) -> Walked:
    """Follow the headers of the whole batches of an answer."""
    markers = []
    at = 0
    while at + HEADER_SIZE <= len(chunk):
        header = BatchHeader.read(chunk, at)
        if header.size < HEADER_SIZE or at + header.size > len(chunk):
            break
        if header.is_control:
            markers.append((header.producer_id, header.base_offset))
        offset = max(offset, header.next_offset)
        at += header.size
    return Walked(offset, markers)


def _intervals(
    aborted: list[Any] | None, markers: list[tuple[int, int]]
) -> Iterator[AbortedTransaction]:
    """Yield aborted transactions with their ends, since an answer only has their starts."""
    for each in aborted or ():
        last = min(
            (
                offset
                for producer_id, offset in markers
                if producer_id == each.producer_id and offset > each.first_offset
            ),
            default=LAST_TIME,
        )
        yield AbortedTransaction(each.producer_id, each.first_offset, last, last)
