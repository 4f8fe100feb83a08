"""Sends whole batches to a partition, by Produce 8, over its own connection.

They are not decoded: timestamps, headers and compression stay, and only the batch header loses the
fields of the old broker and the old producer. Several requests are sent before their answers come,
in order.
"""

import struct
from collections import deque
from typing import Final

from siltstone.pipeline.client.cluster import Cluster
from siltstone.pipeline.client.wire import Exchange
from siltstone.pipeline.sinks.kafka import NotSent
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import CODEC_MASK
from siltstone.protocol.errors import error_name
from siltstone.protocol.messages import produce
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from siltstone.protocol.records.batch import HEADER, BatchHeader
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import iterate_records
from siltstone.storage.topic_partition import TopicPartition

_PRODUCE: Final = Exchange(produce.REQUEST, produce.RESPONSE, 8)
AHEAD_BYTES: Final = 4 << 20
AHEAD_REQUESTS: Final = 64
_ACKS: Final = -1
_TIMEOUT_MS: Final = 30_000
_CRC_FROM: Final = 21


class BatchProducer:
    """Sends batches to one partition, in order. One thread."""

    def __init__(self, cluster: Cluster, at: TopicPartition) -> None:
        """Connect to the partition's leader.

        Raises:
            NotSent: It has no leader.
        """
        leader = cluster.leaders([at.topic]).get(at)
        if leader is None:
            raise NotSent(f"{at} has no leader; see whether its broker runs, and run it again")
        self._at = at
        self._wire = cluster.wire(leader.node)
        self._ahead: deque[tuple[int, int]] = deque()  # bytes and records of batches
        self._ahead_bytes = 0
        self._end = 0

    def send(self, batch: bytes | bytearray, records: int) -> None:
        """Send a batch of so many records; it may have to wait for answers to earlier ones.

        Raises:
            NotSent: An earlier one was refused.
        """
        while self._ahead and (
            len(self._ahead) >= AHEAD_REQUESTS or self._ahead_bytes >= AHEAD_BYTES
        ):
            self._take()
        data = [PartitionProduceData(self._at.partition, batch)]
        topic = TopicProduceData(name=self._at.topic, partition_data=data)
        self._wire.send(_PRODUCE, ProduceRequest(None, _ACKS, _TIMEOUT_MS, [topic]))
        self._ahead.append((len(batch), records))
        self._ahead_bytes += len(batch)

    def flush(self) -> int:
        """Wait until all batches are acknowledged; return the offset after the last, 0 without one.

        Raises:
            NotSent: One was refused.
        """
        while self._ahead:
            self._take()
        return self._end

    def _take(self) -> None:
        answer = self._wire.take(_PRODUCE)
        size, records = self._ahead.popleft()
        self._ahead_bytes -= size
        taken = answer.responses[0].partition_responses[0]
        error = taken.error_code
        if error:
            raise NotSent(
                f"{self._at} did not take a batch ({error_name(error)}); run the replay again "
                "to go on"
            )
        self._end = max(self._end, taken.base_offset + records)


def again(header: BatchHeader, data: memoryview, start: int, end: int) -> tuple[bytearray, int]:
    """Return a batch as a producer would send it, and how many records it has.

    A batch without gaps in its offsets keeps its bytes, except those of the header. A batch with
    gaps, or one that the range cuts, is built again.
    """
    is_dense = header.count == header.last_offset_delta + 1
    is_within = start <= header.base_offset and header.last_offset < end
    has_own_times = not header.is_log_append_time and not header.has_delete_horizon
    if not (is_dense and is_within and has_own_times):
        return _rebuilt(header, data, start, end)
    batch = bytearray(data)
    HEADER.pack_into(
        batch,
        0,
        *header._replace(
            base_offset=0,
            leader_epoch=-1,
            attributes=header.attributes & CODEC_MASK,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        ),
    )
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[_CRC_FROM:]))
    return batch, header.count


def _rebuilt(header: BatchHeader, data: memoryview, start: int, end: int) -> tuple[bytearray, int]:
    kept = [record for record in iterate_records(data) if start <= record.offset < end]
    records = [record._replace(offset=number) for number, record in enumerate(kept)]
    if not records:
        return bytearray(), 0
    return build_batch(records, codec=header.attributes & CODEC_MASK), len(records)
