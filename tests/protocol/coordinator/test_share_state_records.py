"""The records of ``__share_group_state``, byte for byte as Apache Kafka 4.4.0 writes them."""

from uuid import UUID

import pytest

from siltstone.protocol.coordinator.share_state_records import (
    Snapshot,
    StateKey,
    Update,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.share_group_state import ShareUpdateStateBatch, StateBatch

ID = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
SNAPSHOT = Snapshot(1, 2, 3, 10, 4, 1000, 2000, [StateBatch(10, 12, 2, 1)])
UPDATE = Update(1, 3, 11, -1, [ShareUpdateStateBatch(11, 12, 0, 2)])


@pytest.mark.parametrize(("is_update", "head"), [(False, "0000"), (True, "0001")])
def test_keys(is_update: bool, head: str) -> None:
    """The type, the group's name with its length in two bytes, the id, and the partition."""
    key = StateKey(is_update, "g", ID, 7)
    written = encode_key(key)

    assert written.hex() == f"{head}000167{ID.hex}00000007"
    assert decode_key(written) == key


def test_a_snapshot() -> None:
    """The count of completed deliveries is a tagged field."""
    written = encode_value(SNAPSHOT)

    assert written.hex() == (
        "0000"
        "00000001" "00000002" "00000003" "000000000000000a"
        "00000000000003e8" "00000000000007d0"
        "02" "000000000000000a" "000000000000000c" "02" "0001" "00"
        "01" "00" "04" "00000004"
    )  # fmt: skip
    assert decode_value(StateKey(False, "g", ID, 7), written) == SNAPSHOT


def test_an_update() -> None:
    """A count that is not known is left out."""
    written = encode_value(UPDATE)

    assert written.hex() == (
        "0000"
        "00000001" "00000003" "000000000000000b"
        "02" "000000000000000b" "000000000000000c" "00" "0002" "00"
        "00"
    )  # fmt: skip
    assert decode_value(StateKey(True, "g", ID, 7), written) == UPDATE


def test_what_is_no_record() -> None:
    """A key of another type is of a newer Kafka; bytes that are cut short are damaged."""
    assert decode_key(bytes.fromhex("0002")) is None
    with pytest.raises(ProtocolError):
        decode_key(b"\0")
    with pytest.raises(ProtocolError):
        decode_value(StateKey(False, "g", ID, 7), encode_value(SNAPSHOT)[:-1])
    with pytest.raises(ProtocolError):
        decode_value(StateKey(False, "g", ID, 7), b"\0\5" + encode_value(SNAPSHOT)[2:])
