"""Which offset is the last of each key in the dirty section (Kafka: ``SkimpyOffsetMap``).

A slot is 24 bytes: 128 bits of the key's SipHash under a secret of this process, and the offset.
The key itself is not stored. Two keys with one digest would count as one; without the secret nobody
can make such keys. Probing is linear, from a slot that grows with the digest.
"""

import mmap
import os
import struct
from typing import Final, Self

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.compiled.slots import SLOT_NUMBERS

SLOT_BYTES: Final = 8 * SLOT_NUMBERS
FIRST_SLOTS: Final = 1 << 15
COMFORT: Final = 0.75
"""The load at which the map grows, while it may: below it probes stay short."""

_SLICE: Final = 1 << 16
_HUGE_FROM: Final = 4 << 20
"""Larger maps use large pages: looking up an address costs as much as reading the slot."""

SECRET: Final = struct.unpack("=qq", os.urandom(16))
"""What keys are hashed with: drawn once per process."""


class OffsetMap:
    """Slots in memory that is mapped for a ``with`` block; of one thread.

    ``usable`` is Kafka's capacity rule: how many keys one pass can take, however large the map is
    now. The map grows to its full size by doubling. The old memory is freed while its slots move,
    so that it never takes much more than ``memory_bytes``.
    """

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        self.max_slots = memory_bytes // SLOT_BYTES
        self.usable = int(self.max_slots * load_factor)
        if self.usable <= 1:
            raise ValueError(
                f"an offset map of {memory_bytes} bytes has room for {self.usable} keys; raise "
                "log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        self.slots = 0
        self.numbers = memoryview(b"").cast("q")
        self._memory: mmap.mmap | None = None

    def __enter__(self) -> Self:
        """Map the memory of an empty map."""
        self._map(min(FIRST_SLOTS, self.max_slots))
        return self

    def __exit__(self, *_: object) -> None:
        """Give the memory back."""
        self._unmap(self._memory, self.numbers)
        self._memory = None
        self.numbers = memoryview(b"").cast("q")
        self.slots = 0

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that are mapped now."""
        return len(self.numbers) * 8

    def reserve(self, keys: int) -> None:
        """Grow, if possible, so that ``keys`` keys fit comfortably."""
        slots = self.slots
        while slots < self.max_slots and keys > slots * COMFORT:
            slots = min(2 * slots, self.max_slots)
        if slots > self.slots:
            self._grow(slots)

    def _grow(self, slots: int) -> None:
        """Move into more slots. Old and new slots have the same order, so both are walked once."""
        old, numbers, count = self._memory, self.numbers, self.slots
        self._map(slots)
        for start in range(0, count + 1, _SLICE):
            end = min(start + _SLICE, count + 1)
            kernels.move_slots(numbers, start, end, self.numbers)
            if old is not None:
                _forget(old, start * SLOT_BYTES, end * SLOT_BYTES)
        self._unmap(old, numbers)

    def _map(self, slots: int) -> None:
        size = (slots + 1) * SLOT_BYTES  # one is always empty: probing ends
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if len(memory) >= _HUGE_FROM:
            memory.madvise(mmap.MADV_HUGEPAGE)
        self._memory = memory
        self.numbers = memoryview(memory).cast("q")
        self.slots = slots

    @staticmethod
    def _unmap(memory: mmap.mmap | None, numbers: memoryview) -> None:
        numbers.release()
        if memory is not None:
            memory.close()


def _forget(memory: mmap.mmap, start: int, end: int) -> None:
    """Free whole pages that are no longer read."""
    start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    end = end // mmap.PAGESIZE * mmap.PAGESIZE
    if end > start:
        memory.madvise(mmap.MADV_DONTNEED, start, end - start)
