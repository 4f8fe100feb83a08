"""Every served version of every API: requests lifted to the newest entity, responses from it."""

import tracemalloc
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponse as MetadataResponseV9
from kio.schema.metadata.v13.response import MetadataResponse
from kio.serial import entity_reader

from broker.api import APIS
from broker.dispatch import _RAW, TABLED
from protocol.errors import ProtocolError
from protocol.headers import is_flexible
from protocol.kio_messages import NEWEST, decode_request, encode_response, milliseconds, preload
from protocol.request_reader import request_reader
from protocol.schemas import lower_response
from tests.support.kio_messages import encode, encode_with_unknown_tags, example, smallest

LOWEST = {2: 1, 19: 2, 20: 1, 23: 2, 27: 1, 29: 1, 30: 1, 31: 1, 32: 1, 34: 1, 35: 1}
"""What Apache Kafka 4.3.1 serves at least, where that is not version 0."""

VERSIONS = [
    (key, version)
    for key, newest in NEWEST.items()
    for version in range(LOWEST.get(key, 0), newest + 1)
]


def decode(key: int, version: int, body: bytes) -> Any:
    """Decode a body that lies between other bytes, as in a receive buffer."""
    buffer = bytearray(b"\xff" * 5 + body + b"\xff" * 5)
    return decode_request(key, version, buffer, 5, 5 + len(body))


def body_of(parts: list[Any], key: int, version: int) -> bytes:
    """Return what follows the response header of a frame."""
    (frame,) = parts
    assert frame[:4] == (len(frame) - 4).to_bytes(4)
    return bytes(frame[9 if is_flexible(key, version) and key != 18 else 8 :])


def assert_same_where_both_have_it(old: Any, new: Any) -> None:
    """Compare two entities of different versions field by field, at any depth."""
    names = {field.name for field in fields(old)} & {field.name for field in fields(new)}
    for name in names:
        one, other = getattr(old, name), getattr(new, name)
        if is_dataclass(one):
            assert_same_where_both_have_it(one, other)
        elif isinstance(one, tuple) and one and is_dataclass(one[0]):
            assert len(one) == len(other)
            for one_item, other_item in zip(one, other, strict=True):
                assert_same_where_both_have_it(one_item, other_item)
        else:
            assert one == other


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize("entries", [1, 3])
def test_requests_of_every_version_become_the_newest(key: int, version: int, entries: int) -> None:
    """What an old request says arrives under the same name."""
    old = example(load_request_schema(key, version), seed=3, entries=entries)

    lifted = decode(key, version, encode(old))

    assert isinstance(lifted, load_request_schema(key, NEWEST[key]))
    assert_same_where_both_have_it(old, lifted)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_the_smallest_request_of_every_version(key: int, version: int) -> None:
    """Nulls and empty arrays are lifted too."""
    newest = load_request_schema(key, NEWEST[key])
    lifted = decode(key, version, encode(smallest(load_request_schema(key, version))))

    assert isinstance(lifted, newest)
    assert encode(newest(**{field.name: getattr(lifted, field.name) for field in fields(newest)}))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_a_request_cut_at_any_byte_is_refused(key: int, version: int) -> None:
    """Bytes of the next frame behind the end are not read."""
    body = encode(example(load_request_schema(key, version)))
    buffer = bytearray(body + body)

    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_request(key, version, buffer, 0, end)
    assert decode_request(key, version, buffer, 0, len(body)) is not None


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_trailing_bytes_are_ignored(key: int, version: int) -> None:
    """Kafka's parser does not look behind the body either."""
    body = encode(example(load_request_schema(key, version)))

    assert decode(key, version, body + b"\0more") == decode(key, version, body)


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for key, version in VERSIONS if is_flexible(key, version)]
)
def test_unknown_tagged_fields_are_skipped_at_any_depth(key: int, version: int) -> None:
    """Kio's own reader fails on them; ours gives what it gives without them, cut or whole."""
    entity = example(load_request_schema(key, version), seed=5)
    body = encode_with_unknown_tags(entity)

    assert decode(key, version, body) == decode(key, version, encode(entity))
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_request(key, version, body, 0, end)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_our_reader_reads_what_kio_reads(key: int, version: int) -> None:
    """Known tagged fields, nulls and defaults included, to the same size."""
    schema: Any = load_request_schema(key, version)
    for entity in (example(schema, seed=9), smallest(schema)):
        body = encode(entity)

        assert request_reader(schema, schema, {})(body, 0, len(body)) == (entity, len(body))
        assert entity_reader(schema)(body, 0) == (entity, len(body))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize("entries", [1, 3])
def test_responses_of_every_version_from_the_newest(key: int, version: int, entries: int) -> None:
    """A client of the negotiated version reads what the handler's entity says."""
    newest = example(load_response_schema(key, NEWEST[key]), seed=4, entries=entries)

    body = body_of(encode_response(key, version, 77, newest), key, version)

    entity, size = entity_reader(load_response_schema(key, version))(body, 0)
    assert size == len(body)
    assert_same_where_both_have_it(entity, newest)


ONE_ONLY = {(key, version) for key in (10, 24) for version in range(4)}
"""FindCoordinator and AddPartitionsToTxn before version 4: one is asked for, one is answered."""


@pytest.mark.parametrize(("key", "version"), sorted(set(VERSIONS) - ONE_ONLY))
def test_the_smallest_response_of_every_version(key: int, version: int) -> None:
    """Schema defaults and empty arrays can be written in every version."""
    newest = smallest(load_response_schema(key, NEWEST[key]))

    body = body_of(encode_response(key, version, 77, newest), key, version)

    assert entity_reader(load_response_schema(key, version))(body, 0)[1] == len(body)


def test_the_versions_are_those_that_are_served() -> None:
    """The table of APIs and the newest versions here say the same, codecs by hand apart."""
    served = {(api.key, version) for api in APIS for version in api.versions if api.key in NEWEST}

    assert served == set(VERSIONS)
    assert {api.key for api in APIS} == NEWEST.keys() | TABLED | _RAW


@pytest.mark.parametrize("version", range(4))
def test_one_coordinator_becomes_a_list_and_back(version: int) -> None:
    """FindCoordinator v0-v3 ask for one key and read its coordinator at the top."""
    old = example(load_request_schema(10, version), entries=1)
    newest = example(load_response_schema(10, NEWEST[10]), seed=3, entries=1)

    lifted = decode(10, version, encode(old))
    body = body_of(encode_response(10, version, 77, newest), 10, version)

    answer: Any = entity_reader(load_response_schema(10, version))(body, 0)[0]
    assert lifted.coordinator_keys == (old.key,)
    assert (answer.node_id, answer.host, answer.port, answer.error_code) == (
        newest.coordinators[0].node_id,
        newest.coordinators[0].host,
        newest.coordinators[0].port,
        newest.coordinators[0].error_code,
    )


@pytest.mark.parametrize("version", range(4))
def test_one_transaction_becomes_a_list_and_back(version: int) -> None:
    """AddPartitionsToTxn v0-v3 name one transaction, whose topics they read at the top."""
    old: Any = example(load_request_schema(24, version), seed=2, entries=2)
    newest: Any = example(load_response_schema(24, NEWEST[24]), seed=3, entries=1)

    (lifted,) = decode(24, version, encode(old)).transactions
    body = body_of(encode_response(24, version, 77, newest), 24, version)

    answer: Any = entity_reader(load_response_schema(24, version))(body, 0)[0]
    assert lifted.transactional_id == old.v3_and_below_transactional_id
    assert lifted.producer_id == old.v3_and_below_producer_id
    assert lifted.producer_epoch == old.v3_and_below_producer_epoch
    assert not lifted.verify_only
    assert lifted.topics == old.v3_and_below_topics
    (topic,) = answer.results_by_topic_v3_and_below
    (expected,) = newest.results_by_transaction[0].topic_results
    assert topic.name == expected.name
    assert [
        (each.partition_index, each.partition_error_code) for each in topic.results_by_partition
    ] == [
        (each.partition_index, each.partition_error_code) for each in expected.results_by_partition
    ]


@pytest.mark.parametrize(("allowed", "upgrade_type"), [(False, 1), (True, 2)])
def test_a_downgrade_that_is_allowed_is_a_safe_one(allowed: bool, upgrade_type: int) -> None:
    """UpdateFeatures v0 has a flag where v1 has the direction."""
    old: Any = example(load_request_schema(57, 0), entries=1)
    old = replace(old, feature_updates=(replace(old.feature_updates[0], allow_downgrade=allowed),))

    (lifted,) = decode(57, 0, encode(old)).feature_updates

    assert lifted.upgrade_type == upgrade_type
    assert lifted.feature == old.feature_updates[0].feature


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_to_delete_become_entries(version: int) -> None:
    """DeleteTopics v1-v5 has names, v6 has entries with a name or an id."""
    old = example(load_request_schema(20, version), entries=2)

    lifted = decode(20, version, encode(old))

    assert [(topic.name, topic.topic_id) for topic in lifted.topics] == [
        (name, None) for name in old.topic_names
    ]


def test_no_topics_in_metadata_v0_means_all() -> None:
    """From v1 on that is null, and an empty array means none (pitfall 15)."""
    for version, expected in ((0, None), (1, ()), (12, ())):
        request = replace(smallest(load_request_schema(3, version)), topics=())

        assert decode(3, version, encode(request)).topics == expected


def test_metadata_before_v4_allows_creation() -> None:
    """The field came with v4; before it every Metadata request could create topics."""
    lifted = decode(3, 3, encode(example(load_request_schema(3, 3))))

    assert lifted.allow_auto_topic_creation is True
    assert lifted.topics[0].topic_id is None


def test_list_config_resources_v0_is_about_client_metrics() -> None:
    """v1 added the types; what v0 listed is type 16."""
    assert decode(74, 0, encode(smallest(load_request_schema(74, 0)))).resource_types == (16,)
    assert decode(74, 1, encode(smallest(load_request_schema(74, 1)))).resource_types == ()


def test_absent_fields_have_their_old_meaning() -> None:
    """What the newest schema has no default for is filled as it was understood."""
    assert decode(2, 1, encode(example(load_request_schema(2, 1)))).isolation_level == 0
    assert decode(18, 0, b"").client_software_name == ""
    assert decode(43, 0, encode(example(load_request_schema(43, 0)))).election_type == 0
    assert (
        decode(60, 1, encode(example(load_request_schema(60, 1)))).include_fenced_brokers is False
    )


@pytest.mark.parametrize("version", [8, 9, 10])
def test_metadata_still_asks_what_one_may_do_with_the_cluster(version: int) -> None:
    """The newest request lost this field; that of these versions keeps it when it is lifted."""
    old = example(load_request_schema(3, version))

    for asked in (True, False):
        asking = replace(old, include_cluster_authorized_operations=asked)
        lifted = decode(3, version, encode(asking))

        assert lifted.include_cluster_authorized_operations is asked


def test_a_lost_field_is_written_with_its_default_or_attribute() -> None:
    """Metadata v8-v10 ends with authorized operations of the cluster, which v13 has no more."""

    class Answer(MetadataResponse):
        cluster_authorized_operations = 264

    newest = example(MetadataResponse)
    values = {field.name: getattr(newest, field.name) for field in fields(newest)}

    plain = lower_response(3, 9, 13, newest)
    richer = lower_response(3, 9, 13, Answer(**values))

    assert isinstance(plain, MetadataResponseV9)
    assert plain.cluster_authorized_operations == -(1 << 31)
    assert richer.cluster_authorized_operations == 264
    assert lower_response(3, 12, 13, newest) is newest


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    """Version 0 layout and header, with the one row that lets the client ask again."""
    entity = ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),),
        throttle_time=timedelta(0),
    )

    assert encode_response(18, 0, 7, entity) == [
        b"\0\0\0\x10\0\0\0\x07\0\x23\0\0\0\x01\0\x12\0\0\0\x04"
    ]


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (19, 7, b"\0" + b"\0\0\0\1" + b"\0\0"),
        (19, 2, b"\xff\xff\xff\xff" + b"\0\0\0\1\0"),
        (33, 2, b"\2" + b"\2\2t\0" + b"\0" + b"\0\0"),
    ],
)
def test_a_null_array_is_refused_where_the_schema_has_none(
    key: int, version: int, body: bytes
) -> None:
    """None among the entities of a handler would be a fault of its own."""
    with pytest.raises(ProtocolError, match="array of -1 entries"):
        decode(key, version, body)


@pytest.mark.parametrize(("key", "version"), [(19, 2), (19, 7), (37, 3), (3, 13), (75, 0)])
def test_a_count_that_is_not_there_costs_nothing(key: int, version: int) -> None:
    """Two thousand million entries are refused before room is made for them.

    kio's native readers take the count for a size to allocate, which ends the process.
    """
    count = b"\xff\xff\xff\xff\x07" if is_flexible(key, version) else b"\x7f\xff\xff\xff"
    body = count + b"\x01" * 100
    decode(key, version, encode(smallest(load_request_schema(key, version))))

    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode(key, version, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


@settings(max_examples=400)
@given(st.data())
def test_damage_is_read_or_refused(data: st.DataObject) -> None:
    """A body with changed bytes gives an entity or a ProtocolError, never anything else."""
    key, version = data.draw(st.sampled_from(VERSIONS))
    entity = example(load_request_schema(key, version), seed=data.draw(st.integers(1, 50)))
    tagged = is_flexible(key, version) and data.draw(st.booleans())
    body = bytearray(encode_with_unknown_tags(entity) if tagged else encode(entity))
    for _ in range(data.draw(st.integers(1, 4)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    try:
        lifted = decode(key, version, bytes(body))
    except ProtocolError:
        return

    assert isinstance(lifted, load_request_schema(key, NEWEST[key]))


@settings(max_examples=400)
@given(st.sampled_from(VERSIONS), st.binary(max_size=100))
def test_noise_is_read_or_refused(row: tuple[int, int], body: bytes) -> None:
    """Bytes that nobody wrote cause no other error than ProtocolError."""
    try:
        decode(*row, body)
    except ProtocolError:
        return


def test_nothing_of_the_buffer_is_kept() -> None:
    """The receive buffer can grow while a handler still works on the request."""
    buffer = bytearray(encode(example(load_request_schema(3, 12))))

    request = decode_request(3, 12, buffer, 0, len(buffer))
    buffer.extend(b"more")

    assert request.topics


@given(st.integers(-(1 << 40), 1 << 40))
def test_durations_are_milliseconds(value: int) -> None:
    """The timedelta of kio and the integer of the wire are the same thing, -1 included."""
    assert milliseconds(timedelta(milliseconds=value)) == value


def test_preloading_goes_step_by_step() -> None:
    """Each step imports at most one module; all of them together is what the rows need."""
    steps = list(preload([(46, 0), (74, 0)]))

    assert len(steps) == 6
