"""The offset map: Kafka's capacity rule, growth, digests that nobody can aim."""

import pytest

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.one_pass.key_digest import sip_hash, sum_with, text_of
from siltstone.cleaner.one_pass.offset_map import FIRST_SLOTS, SLOT_BYTES, OffsetMap

# Of the reference implementation, SipHash-2-4 with 128 bits of output: key 00 01 … 0f, input
# nothing, 00, 00 01, …
VECTORS = ("a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45")


@pytest.mark.parametrize(("size", "expected"), list(enumerate(VECTORS)))
def test_digest_is_siphash(size: int, expected: str) -> None:
    """With the published rounds it gives the published digests."""
    key = bytes(range(16))
    seed = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))

    digest = sip_hash(bytes(range(size)), seed, (2, 4))

    assert digest.to_bytes(16, "little").hex() == expected


def test_digest_of_a_set_does_not_know_an_order() -> None:
    """It is a sum, the same however the keys are met, and another for other keys."""
    total = 0
    for key in (b"a", b"b", b""):
        total = sum_with(total, key)

    assert total == sum_with(sum_with(sum_with(0, b""), b"b"), b"a")
    assert total != sum_with(sum_with(0, b"a"), b"b")
    assert len(text_of(total)) == 32


def test_capacity_is_kafkas() -> None:
    """128 MiB at a load of 0.9 take 5,033,164 keys."""
    offsets = OffsetMap(134_217_728, 0.9)

    assert (offsets.max_slots, offsets.usable) == (5_592_405, 5_033_164)


def test_too_little_memory_is_refused() -> None:
    """A map of one key could make no progress; the message says what to raise."""
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        OffsetMap(2 * SLOT_BYTES, 0.9)


def test_memory_is_taken_and_given_back() -> None:
    """Nothing is mapped between passes; the second pass begins small and empty."""
    offsets = OffsetMap(64 << 20)
    for _ in range(2):
        with offsets:
            small = offsets.memory_bytes
            offsets.reserve(1 << 20)
            large = offsets.memory_bytes

        assert small == (FIRST_SLOTS + 1) * SLOT_BYTES
        assert 30 << 20 < large <= (64 << 20) + SLOT_BYTES
        assert offsets.memory_bytes == 0


def test_growth_keeps_every_key(both_kernels: str) -> None:
    """Doubling moves all slots, whatever they wrapped around."""
    offsets = OffsetMap(1 << 20)
    with offsets:
        count = 20_000 if both_kernels == "chosen" else 500
        offsets.numbers[:] = memoryview(bytes(8 * len(offsets.numbers))).cast("q")
        step = (1 << 63) // count
        for number in range(count):
            low = number * step * 2 - (1 << 63)
            home = ((low & ((1 << 64) - 1)) * offsets.slots) >> 64
            while offsets.numbers[3 * home + 2]:
                home = (home + 1) % offsets.slots
            offsets.numbers[3 * home : 3 * home + 3] = memoryview(
                (low & ((1 << 64) - 1)).to_bytes(8, "little")
                + number.to_bytes(8, "little")
                + (number + 1).to_bytes(8, "little")
            ).cast("q")
        old = bytes(offsets.numbers)
        offsets.reserve(30_000)
        new = bytes(offsets.numbers)

    assert len(new) > len(old)
    assert slots_in(new) == slots_in(old)
    assert len(slots_in(new)) == count


def slots_in(data: bytes) -> set[bytes]:
    """Return the slots that are in use."""
    rows = {data[at : at + SLOT_BYTES] for at in range(0, len(data), SLOT_BYTES)}
    return rows - {bytes(SLOT_BYTES)}


def test_kernels_are_known() -> None:
    """The chooser says whether the compiled ones are in use."""
    assert kernels.COMPILED in {True, False}
