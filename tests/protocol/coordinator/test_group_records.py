"""Committed offsets and classic groups as records of __consumer_offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.coordinator.group_records import (
    group_key,
    offset_key,
    put_group,
    read_group,
    read_key,
    read_offset,
)
from siltstone.protocol.coordinator.headed import MAX_EPOCH
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.support.committed import put_offset

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
epochs = st.integers(-(1 << 31), MAX_EPOCH)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text(max_size=40)
members = st.builds(
    MemberMetadata,
    member_id=names,
    group_instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout=int32,
    session_timeout=int32,
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)


def test_keys_as_kafka_writes_them() -> None:
    """An int16 type, strings with int16 lengths, the partition."""
    assert offset_key("g", "orders", 5) == b"\0\1\0\1g\0\6orders\0\0\0\5"
    assert group_key("grün") == b"\0\2\0\5gr\xc3\xbcn"


def test_values_as_kafka_writes_them() -> None:
    """Version 3, and version 1 where the client said when the offset expires."""
    plain = put_offset(OffsetCommitValue(0x0102, 3, "m", 0x0405))
    expiring = put_offset(OffsetCommitValue(0x0102, 3, "m", 0x0405, 0x0607))

    assert plain == b"\0\3" + b"\0" * 6 + b"\1\2\0\0\0\3\0\1m" + b"\0" * 6 + b"\4\5"
    assert expiring == (
        b"\0\1" + b"\0" * 6 + b"\1\2\0\1m" + b"\0" * 6 + b"\4\5" + b"\0" * 6 + b"\6\7"
    )


@given(int64, int32, names, int64, int64)
def test_offsets_come_back(
    offset: int, leader_epoch: int, metadata: str, now_ms: int, expiry_ms: int
) -> None:
    """Whatever they are; an offset with a time to expire has no leader epoch."""
    plain = OffsetCommitValue(offset, leader_epoch, metadata, now_ms)
    expiring = plain._replace(leader_epoch=-1, expire_timestamp=expiry_ms)

    assert read_offset(put_offset(plain)) == plain
    assert read_offset(put_offset(expiring)) == expiring


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\0\0" + b"\0" * 7 + b"\5" + b"\0\1m" + b"\0" * 7 + b"\6", (5, -1, "m", 6, -1, NO_ID)),
        (
            b"\0\1" + b"\0" * 7 + b"\5" + b"\0\1m" + b"\0" * 7 + b"\6" + b"\0" * 7 + b"\7",
            (5, -1, "m", 6, 7, NO_ID),
        ),
        (b"\0\2" + b"\0" * 7 + b"\5" + b"\0\1m" + b"\0" * 7 + b"\6", (5, -1, "m", 6, -1, NO_ID)),
        (
            b"\0\4" + b"\0" * 7 + b"\5" + b"\0\0\0\2" + b"\2m" + b"\0" * 7 + b"\6" + b"\0",
            (5, 2, "m", 6, -1, NO_ID),
        ),
        (  # as 4.3 writes it with a topic id
            b"\0\4" + b"\0" * 7 + b"\5\0\0\0\2\2m" + b"\0" * 7 + b"\6\1\0\x10" + b"i" * 16,
            (5, 2, "m", 6, -1, b"i" * 16),
        ),
    ],
)
def test_every_version_of_an_offset_is_read(value: bytes, expected: tuple[object, ...]) -> None:
    """Versions 0, 1, 2 and 4, too."""
    assert tuple(read_offset(value)) == expected


@pytest.mark.parametrize(
    "value", [b"", b"\0", b"\0\5" + bytes(40), b"\xff\xff" + bytes(40), b"\0\3"]
)
def test_what_is_no_offset_is_refused(value: bytes) -> None:
    """A newer version, and bytes that are cut short."""
    with pytest.raises(ProtocolError):
        read_offset(value)


@given(
    st.builds(
        GroupMetadataValue,
        protocol_type=names,
        generation=epochs,
        protocol=st.none() | names,
        leader=st.none() | names,
        current_state_timestamp=int64,
        members=st.lists(members, max_size=3),
    )
)
def test_groups_come_back(group: GroupMetadataValue) -> None:
    """Whatever members they have."""
    assert read_group(put_group(group)) == group


def test_old_groups_are_read() -> None:
    """Version 0 has one time-out for both and no time of its state; 1 has two."""
    head = b"\0\x08consumer\0\0\0\7\0\1p\0\1m"
    member = b"\0\1m\0\1c\0\2/h"
    tail = b"\0\0\0\1s\0\0\0\1a"
    old = read_group(b"\0\0" + head + b"\0\0\0\1" + member + b"\0\0\0\x09" + tail)
    newer = read_group(b"\0\1" + head + b"\0\0\0\1" + member + b"\0\0\0\x0a\0\0\0\x09" + tail)

    assert (old.generation, old.current_state_timestamp, old.leader) == (7, -1, "m")
    assert (old.members[0].rebalance_timeout, old.members[0].session_timeout) == (9, 9)
    assert (newer.members[0].rebalance_timeout, newer.members[0].session_timeout) == (10, 9)
    assert newer.members[0].group_instance_id is None


def test_the_newest_groups_are_read() -> None:
    """Version 4 is flexible."""
    value = (
        b"\0\4\x09consumer\0\0\0\7\2p\2m" + bytes(7) + b"\5\2\2m\2i\2c\3/h"
        b"\0\0\0\x0a\0\0\0\x09\2s\2a\0\0"
    )
    group = read_group(value)

    assert (group.protocol, group.current_state_timestamp) == ("p", 5)
    assert group.members[0].group_instance_id == "i"
    assert (group.members[0].subscription, group.members[0].assignment) == (b"s", b"a")


def test_keys_are_told_apart() -> None:
    """Those of other modules, and of a newer Kafka, are not ours."""
    assert read_key(offset_key("g", "t", 1)) == OffsetCommitKey("g", "t", 1)
    assert read_key(b"\0\0" + offset_key("g", "t", 1)[2:]) == OffsetCommitKey("g", "t", 1)
    assert read_key(group_key("g")) == GroupMetadataKey("g")
    assert read_key(b"\0\3\0\1g") is None
    assert read_key(b"\0\x63whatever") is None
    for cut in (b"", b"\0", b"\0\2\0\7g"):
        with pytest.raises(ProtocolError):
            read_key(cut)
