"""Our codec of ConsumerGroupHeartbeat against kio's, in both versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from protocol.consumer_heartbeat import ConsumerHeartbeat, encode, encode_error, parse
from protocol.errors import ProtocolError
from tests.support.kio_messages import encode as encode_request
from tests.support.kio_messages import encode_with_unknown_tags, example

VERSIONS = range(2)
SEEDS = range(1, 6)


def read(version: int, body: bytes, cut: int = 0) -> ConsumerHeartbeat:
    """Parse a body that lies between other bytes; ``cut`` says how many are missing."""
    frame = memoryview(bytearray(b"\xff" * 9 + body + b"\xff" * 9))
    return parse(version, frame, 9, 9 + len(body) - cut)


def request(version: int, seed: int) -> Any:
    """Return some request of kio's."""
    return example(load_request_schema(68, version), seed=seed, entries=seed % 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_as_kio_wrote_them(version: int, seed: int) -> None:
    """Every field, with and without tagged fields that nobody knows."""
    entity = request(version, seed)
    owned = entity.topic_partitions
    meant = (
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        entity.instance_id,
        entity.rack_id,
        round(entity.rebalance_timeout.total_seconds() * 1000),
        entity.subscribed_topic_names,
        getattr(entity, "subscribed_topic_regex", None),
        entity.server_assignor,
        None if owned is None else {each.topic_id: frozenset(each.partitions) for each in owned},
    )

    assert read(version, encode_request(entity)) == meant
    assert read(version, encode_with_unknown_tags(entity)) == meant


@pytest.mark.parametrize("version", VERSIONS)
def test_null_is_told_from_nothing(version: int) -> None:
    """No topics and no partitions is something else than "as before"."""
    body = b"\2g\2m\0\0\0\1\0\0\xff\xff\xff\xff"
    regex = b"\0" if version else b""

    unchanged = read(version, body + b"\0" + regex + b"\0\0\0")
    nothing = read(version, body + b"\1" + regex + b"\0\1\0")

    assert (unchanged.subscribed_topic_names, unchanged.owned) == (None, None)
    assert (nothing.subscribed_topic_names, nothing.owned) == ((), {})


def test_a_topic_may_be_listed_twice() -> None:
    """It has the partitions of both; one without an id is none."""
    one = UUID(int=1).bytes + b"\2\0\0\0\1\0"
    two = UUID(int=1).bytes + b"\2\0\0\0\2\0"
    none = bytes(16) + b"\2\0\0\0\3\0"

    said = read(0, b"\2g\2m\0\0\0\1\0\0\xff\xff\xff\xff\0\0\4" + one + two + none + b"\0")

    assert said.owned == {UUID(int=1): frozenset({1, 2})}


@given(st.sampled_from(VERSIONS), st.sampled_from(SEEDS), st.data())
def test_a_request_cut_short_is_refused(version: int, seed: int, data: st.DataObject) -> None:
    """Wherever its bytes end."""
    body = encode_request(request(version, seed))

    with pytest.raises(ProtocolError):
        read(version, body, data.draw(st.integers(1, len(body))))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("assignment", [None, {}, {UUID(int=7): {3, 1}, UUID(int=8): set()}])
def test_answers_are_read_by_kio(version: int, assignment: dict[UUID, set[int]] | None) -> None:
    """An assignment that is there and empty is not one that has not changed."""
    frame = encode(5, "m", 7, 5000, assignment)

    answer = answered(version, frame)

    assert (answer.error_code.value, answer.error_message) == (0, None)
    assert (answer.member_id, answer.member_epoch) == ("m", 7)
    assert answer.heartbeat_interval.total_seconds() == 5
    if assignment is None:
        assert answer.assignment is None
    else:
        assert {
            each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions
        } == assignment


@pytest.mark.parametrize("version", VERSIONS)
def test_refusals_are_read_by_kio(version: int) -> None:
    """A code and a sentence, and nothing of the member."""
    answer = answered(version, encode_error(5, 110, "rejoin"))

    assert (answer.error_code.value, answer.error_message) == (110, "rejoin")
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


def answered(version: int, frame: bytes) -> Any:
    """Return what kio reads from a frame, all of it, with correlation id 5."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:9] == b"\0\0\0\5\0"
    entity, size = entity_reader(load_response_schema(68, version))(frame, 9)
    assert 9 + size == len(frame)
    return entity
