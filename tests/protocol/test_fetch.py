"""Our Fetch codec against kio's, in every version."""

import tracemalloc
from datetime import timedelta
from pathlib import Path
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
from protocol.fetch import FetchPartition, FetchRequest, PartitionFetched, encode, parse
from protocol.parts import FileSlice, Parts, size_of
from tests.support.fetch_requests import request_entity
from tests.support.kio_messages import encode as kio_encode
from tests.support.kio_messages import encode_with_unknown_tags

VERSIONS = range(4, 19)
FLEXIBLE = range(12, 19)

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text(min_size=1, max_size=140)
ids = st.binary(min_size=16, max_size=16).filter(any)


def keys(version: int) -> st.SearchStrategy[Any]:
    """Return topics as the version names them."""
    return ids if version >= 13 else names


@st.composite
def asked(draw: st.DrawFn, version: int) -> FetchPartition:
    """Draw what the version can ask of a partition."""
    return FetchPartition(
        draw(int32),
        draw(int32) if version >= 9 else -1,
        draw(int64),
        draw(int32) if version >= 12 else -1,
        draw(int64) if version >= 5 else -1,
        draw(int32),
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> FetchRequest:
    """Draw a request that the version can carry."""
    topic = st.tuples(keys(version), st.lists(asked(version), max_size=3))
    forgotten = st.tuples(keys(version), st.lists(int32, max_size=3))
    return FetchRequest(
        draw(int32),
        draw(st.integers(0, 1 << 30)),
        draw(int32),
        draw(int32),
        draw(st.integers(0, 1)),
        draw(int32) if version >= 7 else 0,
        draw(int32) if version >= 7 else -1,
        draw(st.lists(topic, max_size=3)),
        draw(st.lists(forgotten, max_size=2)) if version >= 7 else [],
        draw(st.text(max_size=20)) if version >= 11 else "",
        draw(st.none() | st.text(max_size=20)) if version >= 12 else None,
    )


def parse_body(version: int, body: bytes) -> FetchRequest:
    """Parse a body that lies between other bytes."""
    frame = memoryview(bytearray(b"\xff" * 9 + body + b"\xff" * 9))
    return parse(version, frame, 9, 9 + len(body))


def sample(version: int, entries: int = 1) -> FetchRequest:
    """Return a request with an entry of everything."""
    topic: Any = UUID(int=9 << 90).bytes if version >= 13 else "orders"
    epochs = (4 if version >= 9 else -1, 3 if version >= 12 else -1)
    one = FetchPartition(5, epochs[0], 1_000, epochs[1], 7 if version >= 5 else -1, 1 << 20)
    return FetchRequest(
        -1, 500, 1, 50 << 20, 1,
        9 if version >= 7 else 0,
        2 if version >= 7 else -1,
        [(topic, [one] * entries)] * entries,
        [(topic, [1, 2])] if version >= 7 else [],
        "rack" if version >= 11 else "",
        "cluster" if version >= 12 else None,
    )  # fmt: skip


@settings(max_examples=120)
@given(st.data())
def test_requests_as_kio_writes_them(data: st.DataObject) -> None:
    """What kio writes is read as it was meant, wherever it lies in the buffer."""
    version = data.draw(st.sampled_from(VERSIONS))
    request = data.draw(requests(version))

    parsed = parse_body(version, kio_encode(request_entity(version, request)))

    assert parsed == request


@settings(max_examples=120)
@given(st.data())
def test_unknown_tagged_fields_are_skipped_at_any_depth(data: st.DataObject) -> None:
    """So are the ones that only followers send: directory id (17) and high watermark (18)."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    request = data.draw(requests(version))
    entity = request_entity(version, request, follower_tags=True)

    assert parse_body(version, encode_with_unknown_tags(entity)) == request
    assert parse_body(version, kio_encode(entity)) == request


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_consumer_sends_no_tagged_field(version: int) -> None:
    """An absent replica state is a consumer, an absent cluster id is null."""
    request = sample(version)
    request.cluster_id = None
    request.rack_id = ""

    parsed = parse_body(version, kio_encode(request_entity(version, request)))

    assert parsed.replica_id == -1
    assert parsed == request


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("entries", [0, 1, 2])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_request_cut_at_any_byte_is_refused(version: int, entries: int, tagged: bool) -> None:
    """However much of the next frame lies behind the end."""
    request = sample(version, entries)
    entity = request_entity(version, request)
    body = encode_with_unknown_tags(entity) if tagged and version >= 12 else kio_encode(entity)
    frame = memoryview(bytearray(body + body))

    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            parse(version, frame, 0, end)
        with pytest.raises(ProtocolError):
            parse(version, frame[:end], 0, end)
    assert parse(version, frame, 0, len(body)) == request


@pytest.mark.parametrize("version", VERSIONS)
def test_trailing_bytes_are_ignored(version: int) -> None:
    """Kafka's parser does not look behind the body either."""
    request = sample(version)

    assert parse_body(version, kio_encode(request_entity(version, request)) + b"more") == request


@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_name_may_be_no_text(version: int) -> None:
    """No topic has such a name; that is what the answer says."""
    body = kio_encode(request_entity(version, sample(version))).replace(b"orders", b"\xff" * 6)

    assert parse_body(version, body).topics[0][0] == "\ufffd" * 6


@pytest.mark.parametrize(
    ("version", "tag"),
    [(12, b"\x00\x00"), (18, b"\x00\x03\x05ab"), (15, b"\x01\x03abc"), (18, b"\x01\x00")],
)
def test_a_known_tagged_field_must_hold_its_value(version: int, tag: bytes) -> None:
    """A cluster id or replica state that is cut inside its tag is refused."""
    request = sample(version)
    request.cluster_id = None
    body = kio_encode(request_entity(version, request))

    with pytest.raises(ProtocolError):
        parse_body(version, body[:-1] + b"\x01" + tag)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_count_that_is_not_there_costs_nothing(version: int) -> None:
    """Two thousand million topics are refused before a list is made for them."""
    request = sample(version)
    request.topics, request.forgotten, request.rack_id, request.cluster_id = [], [], "", None
    body = kio_encode(request_entity(version, request))
    rest = {12: 4, 7: 8}.get(12 if version >= 12 else 7 if version >= 7 else 4, 4)
    rest += 2 if version == 11 else 0
    count = b"\xff\xff\xff\xff\x07" if version >= 12 else b"\x7f\xff\xff\xff"

    tracemalloc.start()
    with pytest.raises(ProtocolError, match="entries"):
        parse_body(version, body[:-rest] + count + b"\x01" * 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


@settings(max_examples=120)
@given(st.data())
def test_damage_is_read_or_refused(data: st.DataObject) -> None:
    """A frame with changed bytes gives a request or a ProtocolError, never anything else."""
    version = data.draw(st.sampled_from(VERSIONS))
    body = bytearray(kio_encode(request_entity(version, sample(version, 2))))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    try:
        request = parse_body(version, bytes(body))
    except ProtocolError:
        return

    assert sum(len(found) for _, found in request.topics) <= len(body)


def response_values(version: int, entity: Any) -> list[Any]:
    """Return what kio read as our own values."""
    topics = []
    for topic in entity.responses:
        key = (topic.topic_id or UUID(int=0)).bytes if version >= 13 else topic.topic
        fetched = []
        for one in topic.partitions:
            diverging = getattr(one, "diverging_epoch", None)
            leader = getattr(one, "current_leader", None)
            aborted = one.aborted_transactions
            fetched.append(
                PartitionFetched(
                    one.partition_index,
                    int(one.error_code),
                    one.high_watermark,
                    one.last_stable_offset,
                    getattr(one, "log_start_offset", -1),
                    None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
                    one.records,
                    None if diverging is None else (diverging.epoch, diverging.end_offset),
                    None if leader is None else (leader.leader_id, leader.leader_epoch),
                )
            )
        topics.append((key, fetched))
    return topics


@st.composite
def fetched_entries(draw: st.DrawFn, version: int) -> PartitionFetched:
    """Draw an answer that the version can carry; tags are (-1, -1) in kio when absent."""
    tag = st.none() | st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30))
    return PartitionFetched(
        draw(int32),
        draw(st.sampled_from([int(code) for code in ErrorCode])),
        draw(int64),
        draw(int64),
        draw(int64) if version >= 5 else -1,
        draw(st.none() | st.lists(st.tuples(int64, int64), max_size=2)),
        draw(st.binary(max_size=200) | st.just(b"r" * 20_000)),
        draw(tag) if version >= 12 else None,
        draw(tag) if version >= 12 else None,
    )


def shown(version: int, topics: list[Any]) -> list[Any]:
    """Return values as `response_values` sees them."""
    absent = (-1, -1) if version >= 12 else None
    return [
        (
            key,
            [
                one._replace(
                    diverging=one.diverging or absent, current_leader=one.current_leader or absent
                )
                for one in fetched
            ],
        )
        for key, fetched in topics
    ]


class Held:
    """Stands for a file: a slice of it is all of its content."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def fileno(self) -> int:
        """Fail: encoding does not touch files."""
        raise AssertionError("encoding does not touch files")


def held(records: Any) -> FileSlice:
    """Return records as a range of a file."""
    return FileSlice(Held(records), 0, len(records))


def joined(parts: Parts) -> bytes:
    """Return the parts as they go over the wire."""
    wire = bytearray()
    for part in parts:
        if isinstance(part, FileSlice):
            assert isinstance(part.file, Held)
            wire += part.file.content
        else:
            wire += part
    return bytes(wire)


@settings(max_examples=120)
@given(st.data())
def test_responses_as_kio_reads_them(data: st.DataObject) -> None:
    """What we write is what kio reads, to the last byte, and kio writes the same bytes."""
    version = data.draw(st.sampled_from(VERSIONS))
    one = st.tuples(keys(version), st.lists(fetched_entries(version), min_size=1, max_size=1))
    some = st.tuples(keys(version), st.lists(fetched_entries(version), max_size=3))
    topics = data.draw(st.lists(one, min_size=1, max_size=1) | st.lists(some, max_size=3))
    correlation_id, session_id = data.draw(int32), data.draw(int32)
    sent = [
        (topic, [one._replace(records=held(one.records)) for one in fetched])
        for topic, fetched in topics
    ]

    parts = encode(
        version, correlation_id, 0, session_id, sent if data.draw(st.booleans()) else topics, 12
    )

    frame = joined(parts)
    head = 9 if version >= 12 else 8
    module: Any = load_payload_module(1, version, EntityType.response)
    entity, size = entity_reader(module.FetchResponse)(frame, head)
    assert frame[:4] == (size_of(parts) - 4).to_bytes(4)
    assert frame[4:head] == correlation_id.to_bytes(4, signed=True) + b"\0" * (head - 8)
    assert head + size == len(frame)
    assert entity.throttle_time == timedelta(milliseconds=12)
    assert getattr(entity, "session_id", session_id) == session_id
    assert response_values(version, entity) == shown(version, topics)
    assert frame[head:] == kio_encode(entity)


def test_slices_stay_slices(tmp_path: Path) -> None:
    """Bytes between slices are joined, slices are given on as they are."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"x" * 100)
    with path.open("rb") as file:
        slices = [FileSlice(file, 10, 20), FileSlice(file, 40, 30)]
        entries = [PartitionFetched(i, 0, 9, 9, 0, None, one) for i, one in enumerate(slices)]

        single = encode(13, 1, 0, 0, [(b"i" * 16, entries[:1])])
        both = encode(13, 1, 0, 0, [(b"i" * 16, entries)])

    assert [part if isinstance(part, FileSlice) else bytes for part in single] == [
        bytes,
        slices[0],
        bytes,
    ]
    assert [part if isinstance(part, FileSlice) else bytes for part in both] == [
        bytes,
        slices[0],
        bytes,
        slices[1],
        bytes,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_refusal_has_no_topics(version: int) -> None:
    """Session errors stand at the top, which versions before 7 do not have."""
    frame = joined(encode(version, 1, 70, 0, []))
    module: Any = load_payload_module(1, version, EntityType.response)

    entity, _ = entity_reader(module.FetchResponse)(frame, 9 if version >= 12 else 8)

    assert entity.responses == ()
    assert getattr(entity, "error_code", ErrorCode(70)) == ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("version", VERSIONS)
def test_node_endpoints_from_version_16(version: int) -> None:
    """The address of the leader goes out where the version has room for it."""
    frame = joined(encode(version, 1, 0, 0, [], node=(1, "broker.example", 9092)))
    module: Any = load_payload_module(1, version, EntityType.response)

    entity, _ = entity_reader(module.FetchResponse)(frame, 9 if version >= 12 else 8)

    found = [(n.node_id, n.host, n.port, n.rack) for n in getattr(entity, "node_endpoints", ())]
    assert found == ([(1, "broker.example", 9092, None)] if version >= 16 else [])


@pytest.mark.parametrize("length", [1, 126, 127, 128, 249])
def test_names_of_every_length_are_answered(length: int) -> None:
    """The precompiled layouts end where lengths take a second byte."""
    module: Any = load_payload_module(1, 12, EntityType.response)
    topics = [("n" * length, [PartitionFetched(0, 0, 5, 5, 0, [], b"abc")])]

    entity, _ = entity_reader(module.FetchResponse)(joined(encode(12, 1, 0, 0, topics)), 9)

    assert response_values(12, entity) == shown(12, topics)
