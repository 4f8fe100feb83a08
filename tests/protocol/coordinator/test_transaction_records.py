"""Keys and values of __transaction_state."""

from sys import getrefcount

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.coordinator.transaction_records import (
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_by_topic,
)
from siltstone.protocol.errors import ProtocolError

ONGOING = 1
VALUE = TransactionLogValue(
    producer_id=4000,
    previous_producer_id=-1,
    next_producer_id=-1,
    producer_epoch=7,
    timeout_ms=60_000,
    status=ONGOING,
    partitions=frozenset({("orders", 1), ("orders", 0), ("a", 2)}),
    started_ms=1000,
    updated_ms=2000,
    client_version=0,
)

int16 = st.integers(-(1 << 15), (1 << 15) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
values = st.builds(
    TransactionLogValue,
    producer_id=int64,
    previous_producer_id=int64,
    next_producer_id=int64,
    producer_epoch=int16,
    timeout_ms=int32,
    status=st.integers(1, 7),
    partitions=st.frozensets(st.tuples(st.text(max_size=200), int32), max_size=8),
    started_ms=int64,
    updated_ms=int64,
    client_version=int16,
)


def test_a_key_is_a_version_and_the_id() -> None:
    """TransactionLogKey 0: int16 0 and a string with an int16 length."""
    key = encode_key("copy-1")

    assert key == b"\0\0\0\6copy-1"
    assert decode_key(key) == "copy-1"


def test_a_key_of_another_kind_is_skipped() -> None:
    """A newer Kafka may write keys that we do not know."""
    assert decode_key(b"\0\1\0\6copy-1") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\6copy", b"\0\0\xff\xff"])
def test_a_broken_key_is_refused(key: bytes) -> None:
    """Cut short, null."""
    with pytest.raises(ProtocolError):
        decode_key(key)


def test_version_0_has_classic_lengths() -> None:
    """The bytes of TransactionLogValue 0, topics and partitions in order."""
    expected = (
        b"\0\0" + (4000).to_bytes(8, "big") + b"\0\7" + (60_000).to_bytes(4, "big") + b"\1"
        b"\0\0\0\2\0\1a\0\0\0\1\0\0\0\2\0\6orders\0\0\0\2\0\0\0\0\0\0\0\1"
        + (2000).to_bytes(8, "big")
        + (1000).to_bytes(8, "big")
    )

    assert encode_value(VALUE, 0) == expected
    assert decode_value(expected) == VALUE


def test_version_1_has_compact_lengths_and_tags() -> None:
    """The bytes of TransactionLogValue 1; only fields that are not at their default are tagged."""
    value = VALUE._replace(previous_producer_id=3999, client_version=2)
    expected = (
        b"\0\1" + (4000).to_bytes(8, "big") + b"\0\7" + (60_000).to_bytes(4, "big") + b"\1"
        b"\3\2a\2\0\0\0\2\0\7orders\3\0\0\0\0\0\0\0\1\0"
        + (2000).to_bytes(8, "big")
        + (1000).to_bytes(8, "big")
        + b"\2\0\x08"
        + (3999).to_bytes(8, "big")
        + b"\2\2\0\2"
    )

    assert encode_value(value) == expected
    assert decode_value(expected) == value


@pytest.mark.parametrize(("version", "null"), [(0, b"\xff\xff\xff\xff"), (1, b"\0")])
def test_an_empty_transaction_writes_null_partitions(version: int, null: bytes) -> None:
    """Kafka writes null in the state Empty, an empty array after the end."""
    empty = VALUE._replace(status=0, partitions=frozenset())

    encoded = encode_value(empty, version)

    assert encoded[17 : 17 + len(null)] == null
    assert decode_value(encoded) == empty


@given(values)
def test_version_1_brings_back_everything(value: TransactionLogValue) -> None:
    """A written record is read again."""
    assert decode_value(encode_value(value)) == value


@given(values)
def test_version_0_brings_back_what_it_has_room_for(value: TransactionLogValue) -> None:
    """Other producer ids and the version of the client are lost."""
    kept = value._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)

    assert decode_value(encode_value(value, 0)) == kept


@pytest.mark.parametrize("version", [0, 1])
def test_a_value_cut_anywhere_is_refused(version: int) -> None:
    """No prefix of a value is a value."""
    whole = encode_value(VALUE._replace(client_version=2), version)
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_value(whole[:size])


def test_a_value_of_a_newer_version_is_refused() -> None:
    """Nobody guesses at what it says."""
    with pytest.raises(ProtocolError, match="version 2"):
        decode_value(b"\0\2" + encode_value(VALUE)[2:])


def test_partitions_are_grouped_in_order() -> None:
    """The same set always makes the same bytes."""
    assert group_by_topic(VALUE.partitions) == {"a": [2], "orders": [0, 1]}


def test_large_sets_of_partitions_are_not_kept() -> None:
    """A thousand transactions of all partitions had gigabytes; they are written all the same."""
    partitions = frozenset((f"t{number}", 0) for number in range(101))
    value = VALUE._replace(partitions=partitions)
    before = getrefcount(value.partitions)
    written = encode_value(value, 1)
    after = getrefcount(value.partitions)

    assert after == before
    assert decode_value(written).partitions == value.partitions
