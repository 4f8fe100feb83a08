"""CRC-32C by every road: the package, the core with and without the instruction, crcmod."""

import random
import sys

import pytest

from siltstone.protocol.core import crc32c, crc32c_by_tables
from siltstone.protocol.core.plain_format import choose_package, portable_crc32c

ORACLE = portable_crc32c()
SIZES = [0, 1, 7, 8, 9, 63, 119, 120, 121, 241, 767, 768, 769, 12_287, 12_288, 12_289, 40_000]


def test_check_value() -> None:
    """The value that every CRC-32C gives for the nine digits."""
    assert crc32c(b"123456789") == ORACLE(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", SIZES)
def test_the_core_agrees_with_crcmod(size: int) -> None:
    """At every border of the lanes, aligned or not."""
    data = random.Random(size).randbytes(size + 1)

    for start in (0, 1):
        part = memoryview(data)[start : start + size]
        assert crc32c_by_tables(part) == crc32c(part) == ORACLE(part)


@pytest.mark.parametrize("size", SIZES)
def test_a_checksum_goes_on_where_another_ended(size: int) -> None:
    """In two pieces it comes to the same as in one, by the core and by the package."""
    data = random.Random(size).randbytes(size)
    whole = ORACLE(data)

    for at in {0, size // 3, size}:
        for function in (crc32c, choose_package()):
            assert function(data[at:], function(data[:at])) == whole


def test_crcmod_takes_over_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the crc32c package computes the same."""
    monkeypatch.setitem(sys.modules, "crc32c", None)

    fallback = choose_package()

    assert fallback is not crc32c
    assert fallback(memoryview(b"6789"), fallback(b"12345")) == 0xE3069283
