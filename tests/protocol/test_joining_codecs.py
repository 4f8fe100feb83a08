"""Our codecs of JoinGroup and SyncGroup against kio's, in every version."""

import sys
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from protocol import join_group, sync_group
from protocol.errors import ProtocolError
from protocol.join_group import JoinGroupResponse
from protocol.primitives import put_varint
from tests.support.kio_messages import encode, encode_with_unknown_tags, example

CODECS = {11: join_group, 14: sync_group}
SERVED = [
    (key, version) for key, versions in ((11, range(10)), (14, range(6))) for version in versions
]
NAMES = st.text(max_size=200)
NULLABLE = st.none() | NAMES
DATA = st.binary(max_size=300)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
MEMBERS = st.lists(st.tuples(NAMES, NULLABLE, DATA), max_size=3)
CODES = st.sampled_from(ErrorCode)


def parse(key: int, version: int, body: bytes, cut: int = 0) -> Any:
    """Parse a body that lies between other bytes; ``cut`` says how many are missing."""
    frame = memoryview(bytearray(b"\xff" * 9 + body + b"\xff" * 9))
    return CODECS[key].parse(version, frame, 9, 9 + len(body) - cut)


def read_frame(key: int, version: int, frame: bytes) -> Any:
    """Return a response as kio reads it, and check its size prefix and correlation id."""
    response_class: Any = load_response_schema(key, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    head, size = entity_reader(response_class.__header_schema__)(frame[4:], 0)
    entity, end = entity_reader(response_class)(frame[4:], size)
    assert head.correlation_id == 77
    assert size + end == len(frame) - 4
    return entity


def make(key: int, version: int, part: str, entries: list[dict[str, Any]], **values: Any) -> Any:
    """Return a request of kio's; what the version does not have is left out."""
    request: Any = load_request_schema(key, version)
    nested = getattr(sys.modules[request.__module__], part)
    (array,) = (name for name in ("protocols", "assignments") if name in request.__slots__)
    values[array] = tuple(nested(**each) for each in entries)
    return request(**{name: each for name, each in values.items() if name in request.__slots__})


def bodies(entity: Any) -> list[bytes]:
    """Return the request as it may come: flexible ones with tagged fields nobody knows, too."""
    return [encode(entity), *([encode_with_unknown_tags(entity)] if entity.__flexible__ else [])]


@pytest.mark.parametrize("version", range(10))
@settings(max_examples=25)
@given(
    group=NAMES,
    timeouts=st.tuples(INT32, INT32),
    member=NAMES,
    instance=NULLABLE,
    kind=NAMES,
    protocols=st.lists(st.tuples(NAMES, DATA), max_size=3),
    reason=NULLABLE,
)
def test_joins_as_kio_writes_them(
    version: int,
    group: str,
    timeouts: tuple[int, int],
    member: str,
    instance: str | None,
    kind: str,
    protocols: list[tuple[str, bytes]],
    reason: str | None,
) -> None:
    """Whatever is in them, wherever they lie; a version without a field has its default."""
    session, rebalance = (timedelta(milliseconds=each) for each in timeouts)
    entity = make(
        11,
        version,
        "JoinGroupRequestProtocol",
        [{"name": name, "metadata": data} for name, data in protocols],
        group_id=group,
        session_timeout=session,
        rebalance_timeout=rebalance,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        reason=reason,
    )
    meant = (
        group,
        timeouts[0],
        timeouts[1] if version >= 1 else -1,
        member,
        instance if version >= 5 else None,
        kind,
        tuple(protocols),
    )

    assert {parse(11, version, body) for body in bodies(entity)} == {meant}


@pytest.mark.parametrize("version", range(6))
@settings(max_examples=25)
@given(
    group=NAMES,
    generation=INT32,
    member=NAMES,
    names=st.tuples(NULLABLE, NULLABLE, NULLABLE),
    assignments=st.dictionaries(NAMES, DATA, max_size=3),
)
def test_syncs_as_kio_writes_them(
    version: int,
    group: str,
    generation: int,
    member: str,
    names: tuple[str | None, str | None, str | None],
    assignments: dict[str, bytes],
) -> None:
    """Whatever is in them, wherever they lie; a version without a field has null there."""
    instance, protocol_type, protocol_name = names
    entity = make(
        14,
        version,
        "SyncGroupRequestAssignment",
        [{"member_id": name, "assignment": data} for name, data in assignments.items()],
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
    )
    meant = (
        group,
        generation,
        member,
        instance if version >= 3 else None,
        *((protocol_type, protocol_name) if version >= 5 else (None, None)),
        assignments,
    )

    assert [parse(14, version, body) for body in bodies(entity)] == [meant] * len(bodies(entity))


@pytest.mark.parametrize(("key", "version"), SERVED)
@pytest.mark.parametrize("entries", [0, 2])
def test_a_request_that_is_cut_short_is_refused(key: int, version: int, entries: int) -> None:
    """At every byte."""
    for body in bodies(example(load_request_schema(key, version), 3, entries)):
        for cut in range(1, len(body) + 1):
            with pytest.raises(ProtocolError):
                parse(key, version, body, cut)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_request_with_any_byte_changed_is_read_or_refused(key: int, version: int) -> None:
    """Nothing but our own error comes out of it, nor a length that is not there."""
    body = encode(example(load_request_schema(key, version), 3, 2))
    for place in range(len(body)):
        for change in (0x01, 0x02, 0x80, 0xFF):
            changed = bytearray(body)
            changed[place] ^= change
            try:
                request = parse(key, version, bytes(changed))
            except ProtocolError:
                continue
            entries = request.protocols if key == 11 else request.assignments.items()
            assert sum(len(name.encode()) + len(data) for name, data in entries) < len(body)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_bytes_that_are_null_are_refused(key: int, version: int) -> None:
    """Neither metadata nor an assignment can be."""
    entity = example(load_request_schema(key, version), 3, 1)
    content = entity.protocols[0].metadata if key == 11 else entity.assignments[0].assignment
    body, flexible = encode(entity), entity.__flexible__
    size = put_varint(len(content) + 1) if flexible else len(content).to_bytes(4, "big")
    null = b"\0" if flexible else b"\xff" * 4
    assert body.count(size + content) == 1

    with pytest.raises(ProtocolError, match="null"):
        parse(key, version, body.replace(size + content, null))


@pytest.mark.parametrize("version", range(10))
@settings(max_examples=25)
@given(
    code=CODES,
    generation=INT32,
    kind=NULLABLE,
    protocol=NULLABLE,
    leader=NAMES,
    skips=st.booleans(),
    member=NAMES,
    members=MEMBERS,
)
def test_answers_to_joins(
    version: int,
    code: ErrorCode,
    generation: int,
    kind: str | None,
    protocol: str | None,
    leader: str,
    skips: bool,
    member: str,
    members: list[tuple[str, str | None, bytes]],
) -> None:
    """Kio reads what we say, where the version has a place for it."""
    response = JoinGroupResponse(
        code.value, member, generation, kind, protocol, leader, tuple(members), skips
    )
    answer = read_frame(11, version, join_group.encode(version, 77, response))

    assert (answer.error_code, answer.generation_id, answer.leader, answer.member_id) == (
        code,
        generation,
        leader,
        member,
    )
    assert answer.protocol_name == (protocol if version >= 7 else protocol or "")
    assert getattr(answer, "protocol_type", kind) == kind
    assert getattr(answer, "skip_assignment", skips) == skips
    assert [
        (each.member_id, getattr(each, "group_instance_id", instance), each.metadata)
        for each, (_, instance, _) in zip(answer.members, members, strict=True)
    ] == members


@pytest.mark.parametrize("version", range(6))
@settings(max_examples=25)
@given(code=CODES, kind=NULLABLE, protocol=NULLABLE, assignment=DATA)
def test_answers_to_syncs(
    version: int, code: ErrorCode, kind: str | None, protocol: str | None, assignment: bytes
) -> None:
    """Kio reads what we say, where the version has a place for it."""
    frame = sync_group.encode(version, 77, code.value, kind, protocol, assignment)
    answer = read_frame(14, version, frame)

    assert (answer.error_code, answer.assignment) == (code, assignment)
    assert getattr(answer, "protocol_type", kind) == kind
    assert getattr(answer, "protocol_name", protocol) == protocol
