"""Frames for ``load.c``, made by kio from Kafka's own schemas, and where in them to look.

The load generator knows no protocol: it sends these bytes and reads answers at these positions.
"""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch
from kio.schema.fetch.v12 import response as fetched
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v9 import request as produce
from kio.schema.produce.v9 import response as produced
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

_CLIENT_ID = b"bench"
_MARK = i64(0x1122_3344_5566_7788)
_NO_TIME = i32Timedelta.parse(dt.timedelta())
_RECORD_OVERHEAD = 10
"""Bytes of a record beside its value, about: lengths and differences of a byte or three each."""
_TIMEOUT = i32Timedelta.parse(dt.timedelta(seconds=30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Frames one after the other, and positions as ``load.c`` takes them."""

    data: bytes
    positions: dict[str, int]


def batch_of(batch_bytes: int, record_bytes: int, now_ms: int) -> bytes:
    """Return a batch of exactly ``batch_bytes``, or of one record if that is 0."""
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    full = value[:record_bytes]
    if not batch_bytes:
        return bytes(build_batch([Record(0, now_ms, None, full)]))
    count = batch_bytes // (record_bytes + 6)
    last = record_bytes
    while True:
        values = [full] * (count - 1) + [(value * 2)[:last]]
        batch = build_batch([Record(n, now_ms, None, each) for n, each in enumerate(values)])
        missing = batch_bytes - len(batch)
        if not missing:
            return bytes(batch)
        more, rest = divmod(missing + last - record_bytes, record_bytes + _RECORD_OVERHEAD)
        count, last = count + more, record_bytes + rest


def produce_frames(topic: str, partitions: Iterable[int], batch: bytes, acks: int) -> Frames:
    """Return one Produce v9 request for each partition."""
    data = b"".join(
        _request(
            produce.ProduceRequest(
                acks=i16(acks),
                timeout=_TIMEOUT,
                topic_data=(
                    produce.TopicProduceData(
                        name=TopicName(topic),
                        partition_data=(
                            produce.PartitionProduceData(
                                index=i32(partition),
                                records=batch,
                            ),
                        ),
                    ),
                ),
            )
        )
        for partition in partitions
    )
    return Frames(data=data, positions={"error_at": _position(produce_answer(topic)) - 2})


def produce_answer(topic: str) -> bytes:
    """Return the canned success that the floor answers with, base offset ``_MARK``."""
    partition = produced.PartitionProduceResponse(
        index=i32(0), error_code=ErrorCode.none, base_offset=_MARK, record_errors=()
    )
    topics = (
        produced.TopicProduceResponse(name=TopicName(topic), partition_responses=(partition,)),
    )
    return _sized(bytes(5) + _written(produced.ProduceResponse(responses=topics)))


def fetch_frames(topic: str, partitions: Iterable[int], max_bytes: int, offset: int = 0) -> Frames:
    """Return one Fetch v12 request for each partition; ``load fetch`` moves the offset on."""
    answer = _fetch_answer(topic)
    error_at = _position(answer) - 2
    return Frames(
        data=b"".join(_fetch_request(topic, each, max_bytes, offset) for each in partitions),
        positions={
            "offset_at": _position(_fetch_request(topic, 0, max_bytes, _MARK)),
            "error_at": error_at,
            # watermark, last stable and log start offset, no aborted transactions, no replica
            "records_at": error_at + 2 + 3 * 8 + 1 + 4,
        },
    )


def _fetch_request(topic: str, partition: int, max_bytes: int, offset: int) -> bytes:
    return _request(
        fetch.FetchRequest(
            replica_id=BrokerId(-1),
            max_wait=_NO_TIME,
            min_bytes=i32(0),
            max_bytes=i32(max_bytes),
            isolation_level=i8(0),
            session_id=i32(0),
            session_epoch=i32(-1),
            topics=(
                fetch.FetchTopic(
                    topic=TopicName(topic),
                    partitions=(
                        fetch.FetchPartition(
                            partition=i32(partition),
                            fetch_offset=i64(offset),
                            partition_max_bytes=i32(max_bytes),
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
            rack_id="",
        )
    )


def first_frames(topic: str, partitions: Iterable[int], batch: bytes) -> Frames:
    """Return a Metadata request that makes the topic, and Produce requests with acks=all."""
    metadata = MetadataRequest(
        topics=(MetadataRequestTopic(name=TopicName(topic)),),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    last = produce_frames(topic, partitions, batch, -1)
    return Frames(data=_request(metadata) + last.data, positions=last.positions)


def api_versions_frame() -> bytes:
    """Return what a client sends first on every connection."""
    return _request(ApiVersionsRequest(client_software_name="bench", client_software_version="1"))


def _fetch_answer(topic: str) -> bytes:
    partition = fetched.PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        high_watermark=_MARK,
        aborted_transactions=None,
        records=None,
    )
    response = fetched.FetchResponse(
        throttle_time=_NO_TIME,
        error_code=ErrorCode.none,
        responses=(
            fetched.FetchableTopicResponse(topic=TopicName(topic), partitions=(partition,)),
        ),
    )
    return _sized(bytes(5) + _written(response))


def _position(frame: bytes) -> int:
    return frame.index(_MARK.to_bytes(8, "big"))


def _request(entity: Any) -> bytes:
    """Return a request with size and header; the header's tag section follows the client id."""
    head = (
        int(entity.__api_key__).to_bytes(2, "big")
        + int(entity.__version__).to_bytes(2, "big")
        + bytes(4)
        + len(_CLIENT_ID).to_bytes(2, "big")
        + _CLIENT_ID
        + b"\0"
    )
    return _sized(head + _written(entity))


def _written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
