"""The probe's own packing against kio, the second opinion on every layout."""

import datetime as dt
import io
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.fetch.v12.response import FetchableTopicResponse, FetchResponse, PartitionData
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.produce.v9.response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from siltstone.broker.http.probe_frames import (
    fetch_request,
    produce_request,
    read_fetched,
    read_produced,
)

TOPIC = "siltstone probe 0123456789abcdef"
RESPONSE_HEADER = bytes(5)
NO_TIME = i32Timedelta.parse(dt.timedelta())


def parse(frame: bytes, entity_type: Any) -> tuple[RequestHeader, Any]:
    """Return header and body as kio reads them, all bytes used."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, used = entity_reader(RequestHeader)(frame, 4)
    body, more = entity_reader(entity_type)(frame, 4 + used)
    assert 4 + used + more == len(frame)
    return header, body


def written(response: Any) -> bytes:
    """Return a response as kio writes it, with its header and without its size."""
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return RESPONSE_HEADER + buffer.getvalue()


@pytest.mark.parametrize("size", [1, 126, 127, 128, 20_000])
def test_produce_request_is_read_back(size: int) -> None:
    """The records arrive whole, for lengths of one, two and three varint bytes."""
    header, body = parse(produce_request(TOPIC, b"b" * size, 1500), ProduceRequest)

    assert (header.request_api_key, header.request_api_version) == (0, 9)
    assert body.acks == -1
    assert body.timeout.total_seconds() == 1.5
    assert body.topic_data[0].name == TOPIC
    assert body.topic_data[0].partition_data[0].records == b"b" * size


def test_fetch_request_is_read_back() -> None:
    """One partition is asked for, without a session and without waiting."""
    header, body = parse(fetch_request(TOPIC, 42), FetchRequest)

    assert (header.request_api_key, header.request_api_version) == (1, 12)
    assert (body.session_epoch, body.max_wait.total_seconds()) == (-1, 0)
    assert body.topics[0].topic == TOPIC
    assert body.topics[0].partitions[0].fetch_offset == 42


def test_produce_response_is_understood() -> None:
    """Error code and base offset are found behind the topic's name."""
    partition = PartitionProduceResponse(
        index=i32(0),
        error_code=ErrorCode.kafka_storage_error,
        base_offset=i64(77),
        record_errors=(),
    )
    topic = TopicProduceResponse(name=TopicName(TOPIC), partition_responses=(partition,))

    answer = read_produced(written(ProduceResponse(responses=(topic,))), TOPIC)

    assert (answer.error_code, answer.base_offset) == (56, 77)


@pytest.mark.parametrize("aborted", [None, ()])
@pytest.mark.parametrize("records", [None, b"", b"r" * 300])
def test_fetch_response_is_understood(records: bytes | None, aborted: tuple[()] | None) -> None:
    """The records are found behind aborted transactions that are empty or null."""
    partition = PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        high_watermark=i64(9),
        aborted_transactions=aborted,
        records=records,
    )
    topic = FetchableTopicResponse(topic=TopicName(TOPIC), partitions=(partition,))
    response = FetchResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        responses=(topic,),
    )

    answer = read_fetched(written(response), TOPIC)

    assert (answer.error_code, answer.records) == (0, records or b"")


def test_fetch_refused_as_a_whole_is_understood() -> None:
    """A top-level error code counts although no partition is named."""
    response = FetchResponse(
        throttle_time=NO_TIME, error_code=ErrorCode.kafka_storage_error, responses=()
    )

    assert read_fetched(written(response), TOPIC).error_code == 56
