"""The records that keep share groups: bytes as Kafka writes them, and back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.coordinator.headed import MAX_EPOCH
from siltstone.protocol.coordinator.share_group_records import (
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    RecordType,
    ShareGroupKey,
    StatePartitions,
    StateTopic,
    TargetMetadata,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import ProtocolError

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
MEMBER = MemberMetadata(
    rack_id=None, client_id="c", client_host="/h", subscribed_topic_names=("a", "b")
)

epochs = st.integers(-(1 << 31), MAX_EPOCH)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
some = st.frozensets(st.integers(0, 99), max_size=5)
partitions = st.dictionaries(st.uuids(), some, max_size=3)
state_topics = st.dictionaries(
    st.uuids(), st.builds(StateTopic, texts, some, st.just(0)), max_size=3
)
values = st.one_of(
    st.builds(GroupMetadata, epochs, int64).map(lambda value: (RecordType.METADATA, value)),
    st.builds(
        MemberMetadata,
        rack_id=st.none() | texts,
        client_id=texts,
        client_host=texts,
        subscribed_topic_names=st.frozensets(texts).map(lambda names: tuple(sorted(names))),
    ).map(lambda value: (RecordType.MEMBER_METADATA, value)),
    st.builds(TargetMetadata, epochs, int64).map(lambda value: (RecordType.TARGET_METADATA, value)),
    partitions.map(lambda value: (RecordType.TARGET_MEMBER, value)),
    st.builds(CurrentAssignment, epochs, epochs, st.integers(-128, 127), partitions).map(
        lambda value: (RecordType.CURRENT_ASSIGNMENT, value)
    ),
    st.builds(
        StatePartitions, state_topics, state_topics, st.dictionaries(st.uuids(), texts, max_size=3)
    ).map(lambda value: (RecordType.STATE_PARTITIONS, value)),
)


@given(st.sampled_from(RecordType), texts, texts)
def test_keys_come_back(kind: RecordType, group_id: str, name: str) -> None:
    """A key that was written is read as what it was; types without a name have none."""
    read = decode_key(encode_key(ShareGroupKey(kind, group_id, name)))

    assert read is not None
    assert read[:2] == (kind, group_id)
    assert read.name in {name, ""}


@given(values)
def test_values_come_back(pair: tuple[RecordType, Value]) -> None:
    """A value that was written is read as what it was."""
    kind, value = pair

    assert decode_value(kind, encode_value(kind, value)) == value


PARTITIONS = {TOPIC: frozenset({0, 1, 7})}
THEIRS = "0102030405060708090a0b0c0d0e0f10"
HELD = f"02{THEIRS}04{0:08x}{1:08x}{7:08x}00"
STATES = StatePartitions(
    {TOPIC: StateTopic("x", frozenset({2}))},
    {TOPIC: StateTopic("x", frozenset({0, 1}))},
    {TOPIC: "y"},
)
KAFKAS: list[tuple[RecordType, str, Value, str, str]] = [
    (RecordType.MEMBER_METADATA, "m", MEMBER, "000a00016700016d", "0000000263032f68030261026200"),
    (
        RecordType.MEMBER_METADATA,
        "m",
        MEMBER._replace(rack_id="r"),
        "000a00016700016d",
        "000002720263032f68030261026200",
    ),
    (RecordType.METADATA, "", GroupMetadata(5, -2), "000b000167", "000000000005fffffffffffffffe00"),
    (
        RecordType.TARGET_METADATA,
        "",
        TargetMetadata(5, 1_700_000_000_000),
        "000c000167",
        "0000000000050100080000018bcfe56800",
    ),
    (RecordType.TARGET_METADATA, "", TargetMetadata(5, 0), "000c000167", "00000000000500"),
    (RecordType.TARGET_MEMBER, "m", PARTITIONS, "000d00016700016d", f"0000{HELD}00"),
    (
        RecordType.CURRENT_ASSIGNMENT,
        "m",
        CurrentAssignment(3, 2, 0, PARTITIONS),
        "000e00016700016d",
        f"0000{3:08x}{2:08x}00{HELD}00",
    ),
    (
        RecordType.STATE_PARTITIONS,
        "",
        STATES,
        "000f000167",
        f"000002{THEIRS}027802{2:08x}0002{THEIRS}027803{0:08x}{1:08x}0002{THEIRS}02790000",
    ),
    (RecordType.STATE_PARTITIONS, "", StatePartitions({}, {}, {}), "000f000167", "000001010100"),
]
"""Bytes of Kafka 4.4.0's GroupCoordinatorRecordHelpers and CoordinatorRecordSerde."""


@pytest.mark.parametrize(("kind", "name", "value", "key", "written"), KAFKAS)
def test_the_bytes_are_kafkas(
    kind: RecordType, name: str, value: Value, key: str, written: str
) -> None:
    """Key and value."""
    assert encode_key(ShareGroupKey(kind, "g", name)).hex() == key
    assert encode_value(kind, value).hex() == written


def test_other_keys_are_not_known() -> None:
    """Those of consumer groups, and of the preview before 4.1."""
    assert decode_key(b"\0\3\0\1g") is None
    assert decode_key(b"\0\11\0\1g") is None


def test_an_epoch_that_is_too_high_is_refused() -> None:
    """It could not rise any more."""
    high = GroupMetadata(MAX_EPOCH + 1, 0)

    with pytest.raises(ProtocolError):
        decode_value(RecordType.METADATA, encode_value(RecordType.METADATA, high))
