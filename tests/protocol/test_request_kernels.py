"""Heads and single requests against the general codecs, compiled and as plain Python."""

from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import kernels
from protocol.errors import ProtocolError
from protocol.headers import parse_header
from protocol.produce import PartitionProduced, encode, parse
from protocol.records.choosing import load_uncompiled
from tests.support.kio_messages import encode as kio_encode
from tests.support.kio_messages import encode_with_unknown_tags
from tests.support.produce_requests import Topics, request_entity

PLAIN = load_uncompiled("protocol._request_kernels")
BOTH = pytest.mark.parametrize("kernel", [kernels, PLAIN], ids=["chosen", "plain"])
FLEXIBLE = range(9, 14)
TOPIC_ID = UUID(int=9 << 90).bytes

int32 = st.integers(-(1 << 31), (1 << 31) - 1)


def topic_key(version: int, name: str = "orders") -> Any:
    """Return a topic as the version names it."""
    return TOPIC_ID if version >= 13 else name


def find(kernel: Any, version: int, body: bytes, end: int | None = None) -> Any:
    """Return acks, topic, partition and records of what the kernel finds; None: nothing."""
    frame = memoryview(b"\xff" * 9 + body)
    found = kernel.find_single(frame, 9, 9 + (len(body) if end is None else end), version)
    return None if found is None else (*found[:3], bytes(frame[found[3] : found[4]]))


def read(version: int, body: bytes) -> Any:
    """Return the same of what the general way reads."""
    request = parse(version, memoryview(body), 0, len(body))
    ((key, ((index, records),)),) = request.topics
    assert records is not None
    return request.acks, key, index, bytes(records)


@BOTH
@settings(max_examples=60)
@given(data=st.data())
def test_a_single_request_is_found(kernel: Any, data: st.DataObject) -> None:
    """One topic with one partition, as kio writes it, of any size."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    key = topic_key(version, data.draw(st.text("aé☃", min_size=1, max_size=40)))
    records = data.draw(st.binary(min_size=1, max_size=300) | st.just(b"r" * 70_000))
    index, acks = data.draw(int32), data.draw(st.integers(-2, 300))
    body = kio_encode(request_entity(version, acks, 5, None, [(key, [(index, records)])]))

    assert find(kernel, version, body) == (acks, key, index, records)
    assert find(kernel, version, body + b"more") == (acks, key, index, records)


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_any_other_request_is_left_to_the_general_way(kernel: Any, version: int) -> None:
    """Two of anything, nothing at all, null records, a transactional id, tagged fields."""
    key = topic_key(version)
    one: Topics = [(key, [(0, b"r")])]
    entities = [
        request_entity(version, 1, 5, "tx", one),
        request_entity(version, 1, 5, None, []),
        request_entity(version, 1, 5, None, one * 2),
        request_entity(version, 1, 5, None, [(key, [])]),
        request_entity(version, 1, 5, None, [(key, [(0, b"r"), (1, b"r")])]),
        request_entity(version, 1, 5, None, [(key, [(0, None)])]),
    ]

    assert [find(kernel, version, kio_encode(entity)) for entity in entities] == [None] * 6
    tagged = encode_with_unknown_tags(request_entity(version, 1, 5, None, one))
    assert find(kernel, version, tagged) is None


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_nothing_is_found_in_a_request_that_is_cut(kernel: Any, version: int) -> None:
    """At any byte, whatever lies behind the end."""
    topics: Topics = [(topic_key(version), [(3, b"r" * 200)])]
    body = kio_encode(request_entity(version, -1, 30_000, None, topics))

    for end in range(len(body)):
        assert find(kernel, version, body * 2, end) is None
        assert find(kernel, version, body[:end]) is None


@settings(max_examples=300)
@given(data=st.data())
def test_what_is_found_is_what_the_general_way_reads(data: st.DataObject) -> None:
    """Bytes with damage: both forms agree, and find nothing that is read otherwise."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    topics: Topics = [(topic_key(version), [(0, b"record" * 30)])]
    body = bytearray(kio_encode(request_entity(version, 1, 5, None, topics)))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body)

    found = find(kernels, version, damaged)

    assert found == find(PLAIN, version, damaged)
    assert found is None or found == read(version, damaged)


@BOTH
def test_positions_outside_of_the_buffer_find_nothing(kernel: Any) -> None:
    """The kernel believes no caller either."""
    body = kio_encode(request_entity(9, 1, 5, None, [("a", [(0, b"r")])]))

    assert kernel.find_single(body, -1, len(body), 9) is None
    assert kernel.find_single(body, 0, len(body) + 1, 9) is None
    assert kernel.find_single(body, len(body) + 5, len(body), 9) is None


@given(
    st.sampled_from(FLEXIBLE),
    st.text("aé☃", min_size=1, max_size=40),
    int32,
    int32,
    st.integers(0, 1 << 62),
    st.integers(-1, 1 << 42),
)
def test_a_single_answer_is_the_general_one(
    version: int, name: str, correlation_id: int, index: int, offset: int, append_time: int
) -> None:
    """The precompiled layout writes the same frame, for names and for ids."""
    key = topic_key(version, name)
    produced = PartitionProduced(index, 0, offset, append_time, offset // 2)

    general = encode(version, correlation_id, [(key, [produced])])
    for kernel in (kernels, PLAIN):
        frame = kernel.encode_single(correlation_id, key, index, offset, append_time, offset // 2)

        assert frame == general


@given(
    st.binary(max_size=20),
    st.integers(-1, 20),
    st.integers(-2, 24),
    st.integers(-3, 6),
    st.sampled_from([b"", b"\0", b"\1", b"\0\0"]),
)
def test_a_head_is_read_as_the_general_way_reads_it(
    name: bytes, start: int, end: int, claimed: int, tags: bytes
) -> None:
    """Both forms agree; where they find a body, so does the general way."""
    size = len(name) if claimed > 2 else claimed
    buffer = pack(">hhih", 0, 9, 77, size) + name + tags

    def read(kernel: Any) -> Any:
        try:
            return kernel.read_head(buffer, start, end)
        except ProtocolError as error:
            return str(error)

    found = read(kernels)

    assert found == read(PLAIN)
    if not isinstance(found, str) and found[3] >= 0:
        header = parse_header(memoryview(buffer), start, end, flexible=True)
        assert (*header[:3], header.body_position) == found


@pytest.mark.parametrize("end", range(10))
@BOTH
def test_a_frame_without_room_for_a_head_is_refused(kernel: Any, end: int) -> None:
    """Whatever stands behind it in the buffer."""
    with pytest.raises(ProtocolError, match=f"a frame of {end} bytes holds no header"):
        kernel.read_head(bytes(50), 0, end)
