"""The records that keep consumer groups: bytes as Kafka writes them, and back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    CurrentAssignment,
    GroupMetadata,
    LegacyPartitionMetadata,
    MemberMetadata,
    RecordType,
    ResolvedRegex,
    TargetMetadata,
    Value,
    classic_metadata,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.coordinator.headed import MAX_EPOCH
from siltstone.protocol.errors import ProtocolError

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
MEMBER = MemberMetadata(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=("a", "b"),
    subscribed_topic_regex="x.*",
    rebalance_timeout_ms=300_000,
    server_assignor="range",
    classic_member_metadata=None,
)

_ENDING_WITH_FIELDS = {
    RecordType.TARGET_MEMBER,
    RecordType.CURRENT_ASSIGNMENT,
    RecordType.REGULAR_EXPRESSION,
}

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
epochs = st.integers(-(1 << 31), MAX_EPOCH)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
maybe = st.none() | texts
ids = st.uuids()
partitions = st.dictionaries(ids, st.frozensets(st.integers(0, 99), max_size=5), max_size=3)
owned = st.dictionaries(
    ids, st.dictionaries(st.integers(0, 99), st.integers(-2, 99), max_size=5), max_size=3
)
values = st.one_of(
    st.builds(GroupMetadata, epochs, int64).map(lambda value: (RecordType.METADATA, value)),
    st.builds(
        MemberMetadata,
        instance_id=maybe,
        rack_id=maybe,
        client_id=texts,
        client_host=texts,
        subscribed_topic_names=st.frozensets(texts).map(lambda names: tuple(sorted(names))),
        subscribed_topic_regex=maybe,
        rebalance_timeout_ms=int32,
        server_assignor=maybe,
        classic_member_metadata=st.none()
        | st.builds(
            classic_metadata,
            int32,
            st.lists(st.tuples(texts, st.binary(max_size=9)), min_size=1, max_size=3),
        ),
    ).map(lambda value: (RecordType.MEMBER_METADATA, value)),
    st.builds(TargetMetadata, epochs, int64).map(lambda value: (RecordType.TARGET_METADATA, value)),
    partitions.map(lambda value: (RecordType.TARGET_MEMBER, value)),
    st.builds(CurrentAssignment, epochs, epochs, st.integers(-128, 127), owned, owned).map(
        lambda value: (RecordType.CURRENT_ASSIGNMENT, value)
    ),
    st.builds(ResolvedRegex, st.frozensets(texts), int64, int64).map(
        lambda value: (RecordType.REGULAR_EXPRESSION, value)
    ),
)


@given(st.sampled_from(RecordType), texts, texts)
def test_keys_come_back(kind: RecordType, group_id: str, name: str) -> None:
    """A key that was written is read as what it was; types without a name have none."""
    key = ConsumerGroupKey(kind, group_id, name)
    named = kind not in {RecordType.METADATA, RecordType.PARTITION_METADATA} and (
        kind is not RecordType.TARGET_METADATA
    )

    assert decode_key(encode_key(key)) == (key if named else key._replace(name=""))


@given(values)
def test_values_come_back(typed: tuple[RecordType, Value]) -> None:
    """A value that was written is read as what it was."""
    kind, value = typed

    assert decode_value(kind, encode_value(kind, value)) == value


@given(values, st.data())
def test_a_value_cut_short_is_refused(typed: tuple[RecordType, Value], data: st.DataObject) -> None:
    """Bytes that end inside the fields are refused; only what follows them is not looked at."""
    kind, value = typed
    written = encode_value(kind, value)
    ends_with_unread_tags = kind in _ENDING_WITH_FIELDS
    fields = len(written) - ends_with_unread_tags

    with pytest.raises(ProtocolError):
        decode_value(kind, written[: data.draw(st.integers(0, fields - 1))])


@pytest.mark.parametrize("kind", [0, 1, 2, 9, 15, 17, -1])
def test_keys_of_others_are_none(kind: int) -> None:
    """Committed offsets, classic, share and streams groups are not read here."""
    assert decode_key(kind.to_bytes(2, signed=True) + b"\0\1g") is None


def test_a_value_of_an_unknown_version_is_refused() -> None:
    """Version 0 is all there is."""
    with pytest.raises(ProtocolError, match="version 1"):
        decode_value(RecordType.METADATA, b"\0\1\0\0\0\7\0")


def test_member_metadata_is_written_as_kafka_does() -> None:
    """Fields in the order of ConsumerGroupMemberMetadataValue; tag 0 says that it is not classic.

    Without the tag Kafka takes the member for a classic one with nothing to say.
    """
    assert encode_value(RecordType.MEMBER_METADATA, MEMBER) == (
        b"\0\0\2i\0\2c\3/h\3\2a\2b\4x.*\0\4\x93\xe0\6range\1\0\1\0"
    )


def test_metadata_of_a_classic_member_is_tag_zero() -> None:
    """Its session time-out and its protocols, as a structure that is not null."""
    value = MEMBER._replace(classic_member_metadata=classic_metadata(6000, [("r", b"\1\2")]))

    assert encode_value(RecordType.MEMBER_METADATA, value).endswith(
        b"\1\0\x0d\1\0\0\x17\x70\2\2r\3\1\2\0\0"
    )


def test_a_member_without_the_tag_is_no_classic_one() -> None:
    """This broker once left the tag out; Kafka never does so for a classic member."""
    written = encode_value(RecordType.MEMBER_METADATA, MEMBER).removesuffix(b"\1\0\1\0") + b"\0"

    assert decode_value(RecordType.MEMBER_METADATA, written) == MEMBER


def test_epochs_of_partitions_are_tag_zero_of_each_topic() -> None:
    """Kafka 4.3 keeps, beside the partitions, the epoch in which the member got each."""
    value = CurrentAssignment(5, 4, 1, {TOPIC: {1: 3, 0: 5}}, {})

    assert encode_value(RecordType.CURRENT_ASSIGNMENT, value) == (
        b"\0\0" b"\0\0\0\5" b"\0\0\0\4" b"\1"
        b"\2" + TOPIC.bytes + b"\3\0\0\0\0\0\0\0\1" b"\1\0\x09\3\0\0\0\5\0\0\0\3"
        b"\1" b"\0"
    )  # fmt: skip


def test_partitions_without_epochs_have_the_members() -> None:
    """A record of a broker before 4.3: the epoch of the member holds for all its partitions."""
    written = b"\0\0\0\0\0\5\0\0\0\4\0\2" + TOPIC.bytes + b"\3\0\0\0\0\0\0\0\1\0\1\0"

    assert decode_value(RecordType.CURRENT_ASSIGNMENT, written) == CurrentAssignment(
        5, 4, 0, {TOPIC: {0: 5, 1: 5}}, {}
    )


def test_the_legacy_record_is_recognised() -> None:
    """Subscribed topics as brokers before 4.1 kept them; it only gets a tombstone."""
    assert decode_value(RecordType.PARTITION_METADATA, b"\0\0\1\0") == LegacyPartitionMetadata([])
