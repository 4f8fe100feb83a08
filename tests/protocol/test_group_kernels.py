"""Records of committed offsets, compiled and plain, against the reader of all versions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import group_kernels
from protocol.coordinator.group_records import (
    CommittedOffset,
    OffsetKey,
    put_offset,
    read_key,
    read_offset,
)
from protocol.errors import ProtocolError
from protocol.records.choosing import load_uncompiled

PLAIN = load_uncompiled("protocol._group_kernels")
BOTH = pytest.mark.parametrize("kernel", [group_kernels, PLAIN], ids=["chosen", "plain"])
NAMES = st.text(max_size=30)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
CHANGES = (0x01, 0x02, 0x80, 0xFF)


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


@BOTH
@given(index=INT32, numbers=st.tuples(INT64, INT32, INT64), text=NAMES)
def test_a_value_becomes_a_row_of_an_answer(
    kernel: Any, index: int, numbers: tuple[int, int, int], text: str
) -> None:
    """Partition, offset, leader epoch, metadata and no error."""
    offset, leader_epoch, timestamp = numbers
    value = kernel.offset_value(offset, leader_epoch, text, timestamp)

    assert kernel.offset_row(index, value) == (index, offset, leader_epoch, text, 0)
    assert kernel.offset_row(index, None) == (index, -1, -1, "", 0)


@BOTH
def test_a_value_of_another_layout_is_no_row(kernel: Any) -> None:
    """Another version, a cut at any byte or one more: that is for the reader of all versions."""
    value = kernel.offset_value(7, 1, "text", 5)

    assert kernel.offset_row(0, put_offset(CommittedOffset(7, -1, "text", 5, 6))) is None
    assert kernel.offset_row(0, value + b"\0") is None
    assert [kernel.offset_row(0, value[:end]) for end in range(len(value))] == [None] * len(value)
    assert kernel.offset_row(0, b"") is None


@BOTH
def test_a_value_with_any_byte_changed_is_read_one_way(kernel: Any) -> None:
    """The row says what the reader of all versions reads, or there is none."""
    value = kernel.offset_value(7, 1, "läuft", 5)
    for place in range(len(value)):
        for change in CHANGES:
            changed = bytearray(value)
            changed[place] ^= change
            row = kernel.offset_row(3, bytes(changed))
            if row is not None:
                offset, leader_epoch, metadata, *_ = read_offset(bytes(changed))
                assert row == (3, offset, leader_epoch, metadata, 0)
            elif changed[:2] == value[:2]:
                with pytest.raises(ProtocolError):
                    _read_whole(bytes(changed))


def _read_whole(value: bytes) -> None:
    """Read a value to its end, with text that is UTF-8."""
    committed = read_offset(value)
    if put_offset(committed) != value:
        raise ProtocolError("the value is not written like that")
