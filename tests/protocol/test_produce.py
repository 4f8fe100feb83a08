"""Our Produce codec against kio's, in every version."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.static.constants import EntityType

from protocol.errors import ProtocolError
from protocol.produce import PartitionProduced, ProduceRequest, encode, parse
from tests.support.kio_messages import encode as kio_encode
from tests.support.kio_messages import encode_with_unknown_tags
from tests.support.produce_requests import Topics, request_entity

VERSIONS = range(3, 14)
FLEXIBLE = range(9, 14)

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-1, (1 << 63) - 1)
names = st.text(min_size=1, max_size=140)
ids = st.binary(min_size=16, max_size=16).filter(any)
records = st.none() | st.binary(max_size=300) | st.just(b"r" * 20_000) | st.just(b"r" * 70_000)


def topics_of(version: int, entry: Any) -> st.SearchStrategy[Any]:
    """Return lists of topics as the version names them, often one topic with one entry."""
    keys: st.SearchStrategy[Any] = ids if version >= 13 else names
    one = st.tuples(keys, st.lists(entry, min_size=1, max_size=1))
    some = st.tuples(keys, st.lists(entry, max_size=3))
    return st.lists(one, min_size=1, max_size=1) | st.lists(some, max_size=3)


def parse_body(version: int, body: bytes) -> ProduceRequest:
    """Parse a body that lies between other bytes."""
    frame = memoryview(bytearray(b"\xff" * 9 + body + b"\xff" * 9))
    return parse(version, frame, 9, 9 + len(body))


@settings(max_examples=120)
@given(st.data())
def test_requests_as_kio_writes_them(data: st.DataObject) -> None:
    """What kio writes is read as it was meant, wherever it lies in the buffer."""
    version = data.draw(st.sampled_from(VERSIONS))
    topics = data.draw(topics_of(version, st.tuples(int32, records)))
    acks = data.draw(st.integers(-2, 300))
    timeout_ms = data.draw(st.integers(0, 1 << 30))
    transactional_id = data.draw(st.none() | names)
    body = kio_encode(request_entity(version, acks, timeout_ms, transactional_id, topics))

    request = parse_body(version, body)

    assert request == ProduceRequest(acks, timeout_ms, transactional_id, topics)


@settings(max_examples=120)
@given(st.data())
def test_unknown_tagged_fields_are_skipped_at_any_depth(data: st.DataObject) -> None:
    """Tagged fields of a later version change nothing."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    topics = data.draw(topics_of(version, st.tuples(int32, records)))
    entity = request_entity(version, 1, 1000, None, topics)

    request = parse_body(version, encode_with_unknown_tags(entity))

    assert request == parse_body(version, kio_encode(entity))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("entries", [1, 2])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_request_cut_at_any_byte_is_refused(version: int, entries: int, tagged: bool) -> None:
    """However much of the next frame lies behind the end."""
    topics: Topics = [
        (UUID(int=9 << 90).bytes if version >= 13 else "orders", [(3, b"r" * 200)] * entries)
    ] * entries
    entity = request_entity(version, -1, 30_000, None, topics)
    body = encode_with_unknown_tags(entity) if tagged and version >= 9 else kio_encode(entity)
    frame = memoryview(bytearray(body + body))

    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            parse(version, frame, 0, end)
        with pytest.raises(ProtocolError):
            parse(version, frame[:end], 0, end)
    assert parse(version, frame, 0, len(body)).topics == topics


@pytest.mark.parametrize("version", VERSIONS)
def test_trailing_bytes_are_ignored(version: int) -> None:
    """Kafka's parser does not look behind the body either."""
    topics: Topics = [(UUID(int=7 << 80).bytes if version >= 13 else "t", [(0, b"abc")])]
    body = kio_encode(request_entity(version, 1, 5, None, topics)) + b"more"

    assert parse_body(version, body).topics == topics


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_writable_views_of_the_frame(version: int) -> None:
    """The broker stamps base offset and epoch into them; nothing has been copied."""
    topics: Topics = [(UUID(int=7 << 80).bytes if version >= 13 else "t", [(0, b"abc")])]
    frame = bytearray(kio_encode(request_entity(version, 1, 5, None, topics)))

    content = parse(version, memoryview(frame), 0, len(frame)).topics[0][1][0][1]

    assert content is not None
    content[:] = b"xyz"
    assert b"xyz" in frame


def test_a_topic_name_may_be_no_text() -> None:
    """No topic has such a name; that is what the answer says."""
    single: Topics = [("ab", [(0, b"r")])]
    for topics in (single, single * 2):
        body = kio_encode(request_entity(9, 1, 5, None, topics)).replace(b"ab", b"\xff\xfe")
        assert parse_body(9, body).topics[0][0] == "\ufffd" * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_arrays_are_not_null(version: int) -> None:
    """No topics is an empty array, never null."""
    body = bytearray(kio_encode(request_entity(version, 1, 5, None, [])))
    if version >= 9:
        body[-2] = 0
    else:
        body[-4:] = b"\xff\xff\xff\xff"

    with pytest.raises(ProtocolError, match="array of -1"):
        parse_body(version, bytes(body))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_count_that_is_not_there_costs_nothing(version: int) -> None:
    """Two thousand million topics are refused before a list is made for them."""
    head = kio_encode(request_entity(version, 1, 5, None, []))
    count = b"\xff\xff\xff\xff\x07" if version >= 9 else b"\x7f\xff\xff\xff"
    body = head[: -2 if version >= 9 else -4] + count + b"\x01" * 10_000

    tracemalloc.start()
    with pytest.raises(ProtocolError, match="entries"):
        parse_body(version, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


@settings(max_examples=120)
@given(st.data())
def test_damage_is_read_or_refused(data: st.DataObject) -> None:
    """A frame with changed bytes gives a request or a ProtocolError, never anything else."""
    version = data.draw(st.sampled_from(VERSIONS))
    key: Any = UUID(int=3 << 70).bytes if version >= 13 else "orders"
    topics: Topics = [(key, [(0, b"record" * 30), (1, None)]), (key, [(2, b"")])]
    entity = request_entity(version, 1, 5, None, topics[: data.draw(st.integers(1, 2))])
    body = bytearray(kio_encode(entity))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    try:
        request = parse_body(version, bytes(body))
    except ProtocolError:
        return

    total = sum(len(content or b"") for _, found in request.topics for _, content in found)
    assert total <= len(body)


def response_values(version: int, entity: Any) -> tuple[list[Any], int]:
    """Return what kio read as our own values."""
    topics = []
    for topic in entity.responses:
        key = (topic.topic_id or UUID(int=0)).bytes if version >= 13 else topic.name
        produced = [
            PartitionProduced(
                one.index,
                int(one.error_code),
                one.base_offset,
                -1 if one.log_append_time is None else _milliseconds(one.log_append_time),
                getattr(one, "log_start_offset", -1),
                tuple(
                    (wrong.batch_index, wrong.batch_index_error_message)
                    for wrong in getattr(one, "record_errors", ())
                ),
                getattr(one, "error_message", None),
            )
            for one in topic.partition_responses
        ]
        topics.append((key, produced))
    return topics, entity.throttle_time // timedelta(milliseconds=1)


def _milliseconds(moment: datetime) -> int:
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


@st.composite
def produced_entries(draw: st.DrawFn, version: int) -> PartitionProduced:
    """Draw a result that the version can carry."""
    has_errors = version >= 8 and draw(st.booleans())
    messages = st.none() | st.text(max_size=200)
    wrong = st.lists(st.tuples(int32, messages), max_size=2).map(tuple)
    return PartitionProduced(
        draw(int32),
        draw(st.sampled_from([int(code) for code in ErrorCode])),
        draw(int64),
        draw(st.just(-1) | st.integers(0, 1 << 42)),
        draw(int64) if version >= 5 else -1,
        draw(wrong) if has_errors else (),
        draw(messages) if has_errors else None,
    )


@settings(max_examples=120)
@given(st.data())
def test_responses_as_kio_reads_them(data: st.DataObject) -> None:
    """What we write is what kio reads, to the last byte, and kio writes the same bytes."""
    version = data.draw(st.sampled_from(VERSIONS))
    topics = data.draw(topics_of(version, produced_entries(version)))
    correlation_id = data.draw(int32)
    throttle_ms = data.draw(st.integers(0, 1 << 30))

    frame = encode(version, correlation_id, topics, throttle_ms)

    head = 9 if version >= 9 else 8
    module: Any = load_payload_module(0, version, EntityType.response)
    entity, size = entity_reader(module.ProduceResponse)(frame, head)
    assert frame[:4] == (len(frame) - 4).to_bytes(4)
    assert frame[4:head] == correlation_id.to_bytes(4, signed=True) + b"\0" * (head - 8)
    assert head + size == len(frame)
    assert response_values(version, entity) == (topics, throttle_ms)
    assert frame[head:] == kio_encode(entity)
