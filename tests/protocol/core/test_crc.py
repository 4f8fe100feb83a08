"""CRC-32C by every road: the core with the processor's instruction and without, and crcmod."""

import random

import pytest

from siltstone.protocol.core import crc32c, crc32c_by_tables
from tests.reference.format import crc32c as oracle

SIZES = [0, 1, 7, 8, 9, 63, 119, 120, 121, 241, 767, 768, 769, 12_287, 12_288, 12_289, 40_000]


def test_check_value() -> None:
    """The value that every CRC-32C gives for the nine digits."""
    assert crc32c(b"123456789") == oracle(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", SIZES)
def test_the_core_agrees_with_crcmod(size: int) -> None:
    """At every border of the lanes, aligned or not."""
    data = random.Random(size).randbytes(size + 1)

    for start in (0, 1):
        part = memoryview(data)[start : start + size]
        assert crc32c_by_tables(part) == crc32c(part) == oracle(part)


@pytest.mark.parametrize("size", SIZES)
def test_a_checksum_goes_on_where_another_ended(size: int) -> None:
    """In two pieces it comes to the same as in one."""
    data = random.Random(size).randbytes(size)
    whole = oracle(data)

    for at in {0, size // 3, size}:
        for function in (crc32c, oracle):
            assert function(data[at:], function(data[:at])) == whole
