"""The arrays of the kernels.

Some belong to one pass; a thread keeps others from pass to pass. `slots.py` says what their numbers
mean.
"""

from array import array
from collections.abc import Iterable
from typing import Final

from siltstone.cleaner.compiled import slots
from siltstone.cleaner.compiled.slots import State
from siltstone.cleaner.one_pass.log_to_clean import LastOfProducer
from siltstone.protocol.core.constants import MIN_RECORD_BYTES
from siltstone.storage.segment.transaction_index import AbortedTransaction

NO_HORIZON: Final = (1 << 63) - 1
"""NEXT_HORIZON if no batch has a horizon."""

_FIRST_PRODUCERS = 256
_PLANS = 8192


class Transactions:
    """The transactions that are open at a point of a walk over the log.

    Kafka: ``CleanedTransactionMetadata``. The kernels keep them in the tables here. Each walk from
    the first offset on needs an object of its own.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.transactions = tuple(sorted(aborted, key=lambda entry: entry.first_offset))
        self.aborted = array("q")
        for entry in self.transactions:
            self.aborted.extend((entry.producer_id, entry.first_offset, entry.last_offset, 0))
        count = max(_FIRST_PRODUCERS, 2 * len(self.transactions))
        self.table = _zeros(count * slots.TRANSACTION_NUMBERS)
        self._by_marker = sorted(
            range(len(self.transactions)), key=lambda index: self.transactions[index].last_offset
        )

    def enter(self, state: State) -> None:
        """Begin a walk with nothing open."""
        state[slots.ABORTED_COUNT] = len(self.transactions)
        state[slots.ABORTED_NEXT] = 0
        state[slots.PRODUCERS_USED] = 0

    def grow(self, state: State) -> None:
        """Double the table's room, and drop producers without an open transaction."""
        width = slots.TRANSACTION_NUMBERS
        old = self.table
        room = 2 * len(old) // width
        self.table = _zeros(room * width)
        state[slots.PRODUCERS_USED] = 0
        for at in range(0, len(old), width):
            row = old[at : at + width]
            if row[0] and (row[1] or row[2]):
                place = _home(row[0] - 1, room)
                while self.table[place * width]:
                    place = (place + 1) % room
                self.table[place * width : (place + 1) * width] = row
                state[slots.PRODUCERS_USED] += 1

    def take_kept(self, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions whose marker and data stay, in the order of markers.

        Only those with a marker below ``end_offset``, each once: the segment with the marker gets
        the entry.
        """
        kept = []
        done = 0
        for index in self._by_marker:
            if self.transactions[index].last_offset >= end_offset:
                break
            done += 1
            if self.aborted[index * slots.ABORTED_NUMBERS + 3]:
                kept.append(self.transactions[index])
        del self._by_marker[:done]
        return kept


class KernelArrays:
    """The state of a pass, and the buffers of its kernels.

    ``fates`` and ``output`` grow with the largest batch of a segment and shrink after it.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self.state = _zeros(slots.STATE_SLOTS)
        self.rows = _zeros(slots.WINDOW * slots.ROW_NUMBERS)
        self.plans = _zeros(_PLANS * slots.PLAN_NUMBERS)
        self.producers = array("q")
        self._chunk_bytes = chunk_bytes
        self.fates = bytearray()
        self.output = bytearray()
        self.shrink()

    def shrink(self) -> None:
        """Shrink to the size that usual batches need."""
        fates = self._chunk_bytes // MIN_RECORD_BYTES + 1
        output = self._chunk_bytes + self._chunk_bytes // 4
        if len(self.fates) != fates:
            self.fates = bytearray(fates)
        if len(self.output) != output:
            self.output = bytearray(output)

    def reserve_fates(self, chunk_bytes: int) -> None:
        """Make room for a fate for each record that may be in so many bytes."""
        if len(self.fates) * MIN_RECORD_BYTES <= chunk_bytes:
            self.fates = bytearray(chunk_bytes // MIN_RECORD_BYTES + 1)

    def begin(
        self, producers: Iterable[LastOfProducer], *, secret: tuple[int, int], now_ms: int
    ) -> None:
        """Clear the state for another pass."""
        state = self.state = _zeros(slots.STATE_SLOTS)
        state[slots.LAST_OFFSET] = -1
        state[slots.LATEST] = -1
        state[slots.SEED], state[slots.SEED + 1] = secret
        state[slots.NOW] = now_ms
        state[slots.NEXT_HORIZON] = NO_HORIZON
        self.producers = array("q")
        for producer in producers:
            self.producers.extend((producer.producer_id, producer.last_data_offset, producer.epoch))


def _zeros(count: int) -> State:
    return array("q", bytes(8 * count))


def _home(producer_id: int, room: int) -> int:
    """Return where the kernels first look for a producer."""
    spread = producer_id * 0x9E3779B97F4A7C15 & ((1 << 64) - 1)
    return spread * room >> 64
