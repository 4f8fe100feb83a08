"""Single fetches against the general codec, compiled and as plain Python."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import kernels
from protocol.errors import ProtocolError
from protocol.fetch import FetchPartition, FetchRequest, parse
from protocol.records.choosing import load_uncompiled
from tests.support.fetch_requests import request_entity
from tests.support.kio_messages import encode as kio_encode
from tests.support.kio_messages import encode_with_unknown_tags

PLAIN = load_uncompiled("protocol._request_kernels")
BOTH = pytest.mark.parametrize("kernel", [kernels, PLAIN], ids=["chosen", "plain"])
FLEXIBLE = range(12, 19)
TOPIC_ID = UUID(int=9 << 90).bytes

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)


def topic_key(version: int, name: str = "orders") -> Any:
    """Return a topic as the version names it."""
    return TOPIC_ID if version >= 13 else name


def single(version: int, key: Any = None) -> FetchRequest:
    """Return what nearly every request is."""
    asked = FetchPartition(5, 4, 1_000, -1, -1, 1 << 20)
    return FetchRequest(
        -1, 500, 1, 50 << 20, 1, 0, -1, [(key or topic_key(version), [asked])], []
    )  # fmt: skip


def written(version: int, request: FetchRequest) -> bytes:
    """Return the body as kio writes it."""
    return kio_encode(request_entity(version, request))


def find(kernel: Any, version: int, body: bytes, end: int | None = None) -> Any:
    """Return what the kernel finds between other bytes; None: nothing."""
    frame = memoryview(b"\xff" * 9 + body)
    return kernel.find_single_fetch(frame, 9, 9 + (len(body) if end is None else end), version)


def row(request: FetchRequest) -> Any:
    """Return the same of what the general way reads, if the kernel may find it."""
    if request.forgotten or request.rack_id or request.cluster_id or request.replica_id != -1:
        return None
    if len(request.topics) != 1 or len(request.topics[0][1]) != 1:
        return None
    ((key, (asked,)),) = request.topics
    if asked.last_fetched_epoch != -1 or min(asked.max_bytes, request.max_bytes) < 0:
        return None
    return (
        key, asked.partition, asked.current_leader_epoch, asked.fetch_offset, asked.max_bytes,
        request.max_bytes, request.min_bytes, request.isolation_level, request.session_id,
        request.session_epoch,
    )  # fmt: skip


@BOTH
@settings(max_examples=60)
@given(data=st.data())
def test_a_single_request_is_found(kernel: Any, data: st.DataObject) -> None:
    """One topic with one partition, as kio writes it, whatever its numbers are, but the limits."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    key = topic_key(version, data.draw(st.text("aé☃", min_size=1, max_size=40)))
    numbers = [data.draw(int32) for _ in range(4)]
    limits = [data.draw(st.integers(0, (1 << 31) - 1)) for _ in range(2)]
    asked = FetchPartition(
        numbers[0], numbers[1], data.draw(int64), -1, data.draw(int64), limits[0]
    )
    request = FetchRequest(
        -1, 500, numbers[2], limits[1], data.draw(st.integers(0, 1)), numbers[3],
        data.draw(int32), [(key, [asked])], [],
    )  # fmt: skip
    body = written(version, request)

    assert find(kernel, version, body) == row(request)
    assert find(kernel, version, body + b"more") == row(request)


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_any_other_request_is_left_to_the_general_way(kernel: Any, version: int) -> None:
    """Two of anything, nothing at all, and each field that the short way knows nothing of."""
    key = topic_key(version)
    ((_, (asked,)),) = single(version).topics
    changes: list[dict[str, Any]] = [
        {"topics": []},
        {"topics": [(key, [])]},
        {"topics": [(key, [asked])] * 2},
        {"topics": [(key, [asked, asked])]},
        {"topics": [(key, [asked._replace(last_fetched_epoch=0)])]},
        {"topics": [(key, [asked._replace(max_bytes=-1)])]},
        {"max_bytes": -1},
        {"forgotten": [(key, [1])]},
        {"rack_id": "r"},
        {"cluster_id": "c"},
        {"replica_id": 1},
    ]
    for change in changes:
        request = single(version)
        for name, value in change.items():
            setattr(request, name, value)

        assert find(kernel, version, written(version, request)) is None
    tagged = encode_with_unknown_tags(request_entity(version, single(version)))
    assert find(kernel, version, tagged) is None


@BOTH
@pytest.mark.parametrize("version", FLEXIBLE)
def test_nothing_is_found_in_a_request_that_is_cut(kernel: Any, version: int) -> None:
    """At any byte, whatever lies behind the end."""
    body = written(version, single(version))

    for end in range(len(body)):
        assert find(kernel, version, body * 2, end) is None
        assert find(kernel, version, body[:end]) is None


@settings(max_examples=300)
@given(data=st.data())
def test_what_is_found_is_what_the_general_way_reads(data: st.DataObject) -> None:
    """Bytes with damage: both forms agree, and find nothing that is read otherwise."""
    version = data.draw(st.sampled_from(FLEXIBLE))
    body = bytearray(written(version, single(version)))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body)

    found = find(kernels, version, damaged)

    assert found == find(PLAIN, version, damaged)
    try:
        expected = row(parse(version, memoryview(damaged), 0, len(damaged)))
    except ProtocolError:
        expected = None
    assert found is None or found == expected


@BOTH
def test_positions_outside_of_the_buffer_find_nothing(kernel: Any) -> None:
    """The kernel believes no caller either."""
    body = written(12, single(12))

    assert kernel.find_single_fetch(body, -1, len(body), 12) is None
    assert kernel.find_single_fetch(body, 0, len(body) + 1, 12) is None
    assert kernel.find_single_fetch(body, len(body) + 5, len(body), 12) is None


@given(
    st.sampled_from([TOPIC_ID]) | st.text("aé☃", min_size=1, max_size=42),
    st.tuples(int32, int32, int32),
    st.tuples(int64, int64, int64),
    st.booleans(),
    st.integers(0, 300) | st.integers(1 << 14, (1 << 31) - 300),
)
def test_both_forms_write_the_same(
    key: Any, numbers: Any, offsets: Any, has_list: bool, size: int
) -> None:
    """What the compiled one writes is held against kio with the rest of the codec."""
    correlation_id, session_id, index = numbers
    arguments = correlation_id, session_id, key, index, *offsets, has_list, size

    assert kernels.encode_single_fetch(*arguments) == PLAIN.encode_single_fetch(*arguments)


@BOTH
def test_a_long_name_is_refused(kernel: Any) -> None:
    """Its size would need another byte."""
    with pytest.raises(ValueError, match="126"):
        kernel.encode_single_fetch(1, 0, "n" * 127, 0, 1, 1, 0, False, 10)
