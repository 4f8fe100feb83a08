"""Single commits, heartbeats and offsets against the general codecs, compiled and plain."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from protocol import group_kernels, heartbeat, offset_commit
from protocol.coordinator.group_records import CommittedOffset, OffsetKey, read_key, read_offset
from protocol.errors import ProtocolError
from protocol.records.choosing import load_uncompiled
from tests.support.kio_messages import encode, encode_with_unknown_tags, example

PLAIN = load_uncompiled("protocol._group_kernels")
BOTH = pytest.mark.parametrize("kernel", [group_kernels, PLAIN], ids=["chosen", "plain"])
FLEXIBLE = range(8, 11)
ID = UUID(int=9 << 90).bytes
LIMIT = 126  # bytes of a text whose size has one
NAMES = st.text(max_size=30)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
CHANGES = (0x01, 0x02, 0x80, 0xFF)


def find_commit(kernel: Any, version: int, body: bytes, end: int | None = None) -> Any:
    """Return what the kernel finds in a body between other bytes, or None."""
    frame = memoryview(b"\xff" * 9 + body + b"\xff" * 9)
    return kernel.find_commit(frame, 9, 9 + (len(body) if end is None else end), version)


def find_heartbeat(kernel: Any, body: bytes, end: int | None = None) -> Any:
    """Return what the kernel finds in a body between other bytes, or None."""
    frame = memoryview(b"\xff" * 9 + body + b"\xff" * 9)
    return kernel.find_heartbeat(frame, 9, 9 + (len(body) if end is None else end))


def read_commit(version: int, body: bytes) -> Any:
    """Return the same of what the general way reads; a list if it is not one partition."""
    request = offset_commit.parse(version, memoryview(body), 0, len(body))
    who = request.group_id, request.generation, request.member_id, request.instance_id
    rows = [(key, *each) for key, partitions in request.topics for each in partitions]
    return (*who, *rows[0]) if len(rows) == 1 else rows


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
@settings(max_examples=40)
@given(
    texts=st.tuples(NAMES, NAMES, st.none() | NAMES, NAMES, st.none() | NAMES),
    numbers=st.tuples(INT32, INT32, INT64, INT32),
)
def test_a_single_commit_is_found(
    kernel: Any, version: int, texts: tuple[Any, ...], numbers: tuple[int, ...]
) -> None:
    """One partition, as kio writes it, with any texts and numbers; with longer texts none is."""
    group, member, instance, topic, metadata = texts
    body = encode(commit_entity(version, texts, numbers))
    key = topic if version < 10 else ID
    meant = (group, numbers[0], member, instance, key, *numbers[1:], metadata)
    checked = (group, member, instance, metadata, topic if version < 10 else "")
    is_short = all(len((text or "").encode()) <= LIMIT for text in checked)

    assert find_commit(kernel, version, body) == (meant if is_short else None)
    assert read_commit(version, body) == meant


def commit_entity(version: int, texts: tuple[Any, ...], numbers: tuple[int, ...]) -> Any:
    """Return a request of kio's for one partition."""
    entity: Any = example(load_request_schema(8, version), 3, 1)
    group, member, instance, topic, metadata = texts
    named = {"topic_id": UUID(bytes=ID)} if version >= 10 else {"name": topic}
    row = type(entity.topics[0].partitions[0])(
        partition_index=numbers[1],
        committed_offset=numbers[2],
        committed_leader_epoch=numbers[3],
        committed_metadata=metadata,
    )
    return type(entity)(
        group_id=group,
        generation_id_or_member_epoch=numbers[0],
        member_id=member,
        group_instance_id=instance,
        topics=(type(entity.topics[0])(**named, partitions=(row,)),),
    )


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_what_no_single_commit_is(kernel: Any, version: int) -> None:
    """More or fewer partitions, tagged fields, any cut: that is for the general way."""
    kind = load_request_schema(8, version)
    whole = encode(example(kind, 3, 1))

    assert find_commit(kernel, version, whole) is not None
    assert find_commit(kernel, version, encode(example(kind, 3, 2))) is None
    assert find_commit(kernel, version, encode(example(kind, 3, 0))) is None
    assert find_commit(kernel, version, encode_with_unknown_tags(example(kind, 3, 1))) is None
    assert [find_commit(kernel, version, whole, end) for end in range(len(whole))] == (
        [None] * len(whole)
    )
    assert kernel.find_commit(memoryview(whole), 0, len(whole) + 1, version) is None
    assert kernel.find_commit(memoryview(whole), -1, len(whole), version) is None


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_commit_with_any_byte_changed_is_read_one_way(kernel: Any, version: int) -> None:
    """The short way agrees with the general one, or leaves it the request."""
    body = encode(example(load_request_schema(8, version), 3, 1))
    for place in range(len(body)):
        for change in CHANGES:
            changed = bytearray(body)
            changed[place] ^= change
            found = find_commit(kernel, version, bytes(changed))
            if found is not None:
                assert found == read_commit(version, bytes(changed))


@BOTH
@settings(max_examples=60)
@given(group=NAMES, generation=INT32, member=NAMES, instance=st.none() | NAMES)
def test_a_heartbeat_is_found(
    kernel: Any, group: str, generation: int, member: str, instance: str | None
) -> None:
    """As kio writes it, with any texts; with longer ones none is; nor if it is cut short."""
    beat: Any = load_request_schema(12, 4)
    entity = beat(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )
    body = encode(entity)
    meant = (group, generation, member, instance)
    is_short = all(len(text.encode()) <= LIMIT for text in (group, member, instance or ""))

    assert find_heartbeat(kernel, body) == (meant if is_short else None)
    assert find_heartbeat(kernel, encode_with_unknown_tags(entity)) is None
    assert {find_heartbeat(kernel, body, end) for end in range(len(body))} == {None}


@BOTH
def test_a_heartbeat_with_any_byte_changed_is_read_one_way(kernel: Any) -> None:
    """The short way agrees with the general one, or leaves it the request."""
    body = encode(example(load_request_schema(12, 4), 3))
    for place in range(len(body)):
        for change in CHANGES:
            changed = bytearray(body)
            changed[place] ^= change
            found = find_heartbeat(kernel, bytes(changed))
            if found is not None:
                assert found == heartbeat._parse_any(4, memoryview(changed), 0, len(changed))


@BOTH
@pytest.mark.parametrize("key", [12, 8])
def test_null_where_a_name_has_to_be(kernel: Any, key: int) -> None:
    """Is left to the general way, which refuses it."""
    body = b"\0" + encode(example(load_request_schema(key, 4 if key == 12 else 8), 3, 1))[10:]
    found = find_heartbeat(kernel, body) if key == 12 else find_commit(kernel, 8, body)
    codec: Any = heartbeat if key == 12 else offset_commit

    assert found is None
    with pytest.raises(ProtocolError):
        codec.parse(4 if key == 12 else 8, memoryview(body), 0, len(body))


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
@given(name=st.text(min_size=1, max_size=30), index=INT32, code=st.integers(-1, 130))
def test_answers_to_single_commits(
    kernel: Any, version: int, name: str, index: int, code: int
) -> None:
    """The frame is that of the general codec, which kio reads."""
    key = ID if version >= 10 else name

    assert kernel.encode_commit(77, key, index, code) == offset_commit.encode(
        version, 77, [(key, [(index, code)])]
    )


@BOTH
def test_kio_reads_an_answer_to_a_single_commit(kernel: Any) -> None:
    """With its size and nothing behind it."""
    frame = kernel.encode_commit(77, "orders", 3, 25)
    entity, end = entity_reader(load_response_schema(8, 8))(frame[9:], 0)
    answer: Any = entity

    assert (int.from_bytes(frame[:4], "big"), end) == (len(frame) - 4, len(frame) - 9)
    assert answer.topics[0].partitions[0].partition_index == 3


@BOTH
@given(group=NAMES, topic=NAMES, index=INT32, numbers=st.tuples(INT64, INT32, INT64), text=NAMES)
def test_offsets_are_read_back(
    kernel: Any, group: str, topic: str, index: int, numbers: tuple[int, int, int], text: str
) -> None:
    """A record's key and value, by the reader of all versions."""
    offset, leader_epoch, timestamp = numbers

    assert read_key(kernel.offset_key(group, topic, index)) == OffsetKey(group, topic, index)
    assert read_offset(kernel.offset_value(offset, leader_epoch, text, timestamp)) == (
        CommittedOffset(offset, leader_epoch, text, timestamp)
    )


@BOTH
def test_texts_that_are_too_long_are_refused(kernel: Any) -> None:
    """A size that is said wrongly would be the end of the journal."""
    long = "x" * 0x8000
    with pytest.raises(ValueError, match="name"):
        kernel.offset_key(long, "orders", 0)
    with pytest.raises(ValueError, match="name"):
        kernel.offset_key("g", long, 0)
    with pytest.raises(ValueError, match="metadata"):
        kernel.offset_value(1, 1, long, 1)
    with pytest.raises(ValueError, match="name"):
        kernel.encode_commit(1, "x" * 127, 0, 0)
