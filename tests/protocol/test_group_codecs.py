"""Our codecs of Heartbeat, OffsetCommit and OffsetFetch against kio's, in every version."""

from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from protocol import heartbeat, offset_commit, offset_fetch
from protocol.errors import ProtocolError
from protocol.offset_commit import PartitionOffset
from protocol.offset_fetch import GroupCommitted, PartitionCommitted
from tests.support.kio_messages import encode, encode_with_unknown_tags, example

CODECS = {8: offset_commit, 9: offset_fetch, 12: heartbeat}
SERVED = [
    (key, version)
    for key, versions in ((8, range(2, 11)), (9, range(1, 11)), (12, range(5)))
    for version in versions
]
SEEDS = range(1, 6)
ID = UUID(int=5)


def parse(key: int, version: int, body: bytes, cut: int = 0) -> Any:
    """Parse a body that lies between other bytes; ``cut`` says how many are missing."""
    frame = memoryview(bytearray(b"\xff" * 9 + body + b"\xff" * 9))
    return CODECS[key].parse(version, frame, 9, 9 + len(body) - cut)


def key_of(topic: Any) -> str | bytes:
    """Return what names a topic in a request."""
    key: str | bytes = topic.topic_id.bytes if hasattr(topic, "topic_id") else topic.name
    return key


def meant(key: int, entity: Any) -> Any:
    """Return a request of kio's as our codec should read it."""
    instance_id = getattr(entity, "group_instance_id", None)
    match key:
        case 12:
            return (entity.group_id, entity.generation_id, entity.member_id, instance_id)
        case 8:
            retention = getattr(entity, "retention_time", None)
            return offset_commit.OffsetCommitRequest(
                entity.group_id,
                entity.generation_id_or_member_epoch,
                entity.member_id,
                instance_id,
                -1 if retention is None else round(retention.total_seconds() * 1000),
                [
                    (
                        key_of(topic),
                        [
                            PartitionOffset(
                                each.partition_index,
                                each.committed_offset,
                                getattr(each, "committed_leader_epoch", -1),
                                each.committed_metadata,
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in entity.topics
                ],
            )
    groups = getattr(entity, "groups", (entity,))
    return (
        [
            (
                group.group_id,
                None
                if group.topics is None
                else [(key_of(topic), list(topic.partition_indexes)) for topic in group.topics],
                getattr(group, "member_id", None),
                getattr(group, "member_epoch", -1),
            )
            for group in groups
        ],
        getattr(entity, "require_stable", False),
    )


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_requests_as_kio_writes_them(key: int, version: int) -> None:
    """Whatever is in them, wherever they lie, with and without tagged fields nobody knows."""
    request_class = load_request_schema(key, version)
    for seed in SEEDS:
        entity = example(request_class, seed, entries=seed % 3)
        bodies = [encode(entity)]
        if request_class.__flexible__:
            bodies.append(encode_with_unknown_tags(entity))

        assert [parse(key, version, body) for body in bodies] == [meant(key, entity)] * len(bodies)


@pytest.mark.parametrize(("key", "version"), SERVED)
@pytest.mark.parametrize("entries", [1, 2])
def test_a_request_that_is_cut_short_is_refused(key: int, version: int, entries: int) -> None:
    """At every byte."""
    body = encode(example(load_request_schema(key, version), 3, entries))
    for cut in range(1, len(body)):
        with pytest.raises(ProtocolError):
            parse(key, version, body, cut)


def read_frame(key: int, version: int, frame: bytes) -> Any:
    """Return a response as kio reads it, and check its size prefix and correlation id."""
    response_class = load_response_schema(key, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    head, size = entity_reader(response_class.__header_schema__)(frame[4:], 0)
    entity, end = entity_reader(response_class)(frame[4:], size)
    assert head.correlation_id == 77
    assert size + end == len(frame) - 4
    return entity


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_responses(version: int) -> None:
    """Kio reads our code."""
    entity = read_frame(12, version, heartbeat.encode(version, 77, 27))

    assert int(entity.error_code) == 27


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_responses(version: int) -> None:
    """Kio reads our codes, by name or by id."""
    topic = ID.bytes if version >= 10 else "orders"
    frame = offset_commit.encode(version, 77, [(topic, [(0, 0), (5, 25)]), (topic, [])])
    first, second = read_frame(8, version, frame).topics

    assert key_of(first) == topic
    assert [(each.partition_index, int(each.error_code)) for each in first.partitions] == [
        (0, 0),
        (5, 25),
    ]
    assert not second.partitions


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch_responses(version: int) -> None:
    """Kio reads our offsets, and the error of the group where there is a place for it."""
    topic = ID.bytes if version >= 10 else "orders"
    found = PartitionCommitted(3, 12345678901, 7, "ä", 0)
    frame = offset_fetch.encode(
        version, 77, [GroupCommitted("g", [(topic, [found, PartitionCommitted(4)])], 16)]
    )
    entity = read_frame(9, version, frame)
    (group,) = entity.groups if version >= 8 else (entity,)
    (answered,) = group.topics
    first, second = answered.partitions

    assert key_of(answered) == topic
    assert (first.partition_index, first.committed_offset, first.metadata) == (3, 12345678901, "ä")
    assert (second.partition_index, second.committed_offset, second.metadata) == (4, -1, "")
    assert getattr(first, "committed_leader_epoch", 7) == 7
    assert int(getattr(group, "error_code", 16)) == 16
