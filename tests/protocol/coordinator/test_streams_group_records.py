"""The records that keep streams groups: bytes as Kafka 4.4.0's classes wrote them, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.coordinator.headed import MAX_EPOCH
from siltstone.protocol.coordinator.streams_group_records import (
    CopartitionGroup,
    CurrentAssignment,
    Endpoint,
    GroupMetadata,
    HeldTasks,
    KeyValue,
    LastAssignmentConfig,
    MemberMetadata,
    RecordType,
    StreamsGroupKey,
    Subtopology,
    TargetMetadata,
    Tasks,
    TopicConfig,
    TopicInfo,
    Topology,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import ProtocolError

WRITTEN: list[tuple[RecordType, Value, str]] = [
    (
        RecordType.METADATA,
        GroupMetadata(3, 9, 1, (LastAssignmentConfig("num.standby.replicas", "0"),), 4),
        (
            "00000003000000000000000903000400000001011902156e756d2e7374616e6462792e7265706c696361"
            "73023000020400000004"
        ),
    ),
    (RecordType.METADATA, GroupMetadata(3, 9), "00000003000000000000000900"),
    (
        RecordType.MEMBER_METADATA,
        MemberMetadata(
            *("i", None, "c", "/h", 7, 1, "p"), Endpoint("h", 40_000), (KeyValue("z", "1"),)
        ),
        "0269000263032f68000000070000000102700102689c400002027a02310000",
    ),
    (RecordType.TARGET_METADATA, TargetMetadata(3, 77), "00000003010008000000000000004d"),
    (
        RecordType.TARGET_MEMBER,
        Tasks({"0": frozenset({0, 2})}, {"1": frozenset({1})}, {}),
        "020230030000000000000002000202310200000001000100",
    ),
    (
        RecordType.CURRENT_ASSIGNMENT,
        CurrentAssignment(
            *(3, 2, 2),
            HeldTasks({"0": {0: 2, 2: 3}}, {"1": frozenset({1})}, {}),
            HeldTasks({"0": {1: 2}}, {}, {}),
        ),
        (
            "0000000300000002020202300300000000000000020100090300000002000000030202310200000001000102"
            "023002000000010100050200000002010100"
        ),
    ),
    (
        RecordType.TOPOLOGY,
        Topology(
            1,
            (
                Subtopology(
                    "0",
                    ("a",),
                    (),
                    (TopicInfo("c", 0, 0, (TopicConfig("k", "v"),)),),
                    ("r",),
                    (TopicInfo("r", 4, 1, ()),),
                    (CopartitionGroup((0,), (), (0,)),),
                ),
            ),
        ),
        (
            "000000010202300202610102026300000000000002026b02760000020272020272000000040001010002"
            "02000001020000000000"
        ),
    ),
]

texts = st.text(st.characters(codec="utf-8"), max_size=9)
tasks = st.dictionaries(texts, st.frozensets(st.integers(0, 99), min_size=1), max_size=3)
held = st.builds(
    HeldTasks,
    st.dictionaries(
        texts, st.dictionaries(st.integers(0, 99), st.integers(-2, 99), min_size=1), max_size=3
    ),
    tasks,
    tasks,
)


@pytest.mark.parametrize(("kind", "value", "written"), WRITTEN)
def test_values_are_kafkas(kind: RecordType, value: Value, written: str) -> None:
    """Behind two bytes of their version."""
    content = b"\0\0" + bytes.fromhex(written)

    assert encode_value(kind, value) == content
    assert decode_value(kind, content) == value


@pytest.mark.parametrize("kind", RecordType)
def test_keys_are_kafkas(kind: RecordType) -> None:
    """The type, the group, and the member if it has one."""
    is_of_member = kind in {
        RecordType.MEMBER_METADATA, RecordType.TARGET_MEMBER, RecordType.CURRENT_ASSIGNMENT,
    }  # fmt: skip
    key = StreamsGroupKey(kind, "g", "m" if is_of_member else "")

    written = encode_key(key)

    assert written.hex() == f"{kind:04x}000167" + ("00016d" if is_of_member else "")
    assert decode_key(written) == key


def test_a_task_without_an_epoch_has_that_of_its_member() -> None:
    """Brokers before 4.3 wrote no epochs."""
    content = bytes.fromhex("00000000000300000002010202300300000000000000020001010101" + "0100")

    value = decode_value(RecordType.CURRENT_ASSIGNMENT, content)

    assert isinstance(value, CurrentAssignment)
    assert value.assigned.active == {"0": {0: 3, 2: 3}}


def test_other_keys_are_not_of_streams_groups() -> None:
    """None, as for keys of newer brokers."""
    assert decode_key(b"\0\x03\0\x01g") is None
    assert decode_key(b"\x7f\x7f\0\x01g") is None


@given(held, held, st.builds(Tasks, tasks, tasks, tasks))
def test_what_is_written_is_read_back(assigned: HeldTasks, revoking: HeldTasks, to: Tasks) -> None:
    """Whatever the names of subtopologies are."""
    current = CurrentAssignment(3, 2, 1, assigned, revoking)
    for kind, value in ((RecordType.CURRENT_ASSIGNMENT, current), (RecordType.TARGET_MEMBER, to)):
        assert decode_value(kind, encode_value(kind, value)) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RecordType.METADATA, GroupMetadata(MAX_EPOCH + 1)),
        (RecordType.TARGET_METADATA, TargetMetadata(MAX_EPOCH + 1)),
        (
            RecordType.CURRENT_ASSIGNMENT,
            CurrentAssignment(MAX_EPOCH + 1, 0, 1, HeldTasks(), HeldTasks()),
        ),
    ],
)
def test_epochs_that_could_not_be_counted_on_are_refused(kind: RecordType, value: Value) -> None:
    """A group would fail at the end of the numbers."""
    with pytest.raises(ProtocolError):
        decode_value(kind, encode_value(kind, value))
