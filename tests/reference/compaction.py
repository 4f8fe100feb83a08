"""A cleaner's pass over batches and records in plain Python: what `compaction.pyx` does.

A pass reads a log twice. `MapBuilder` puts the keys of the dirty section into an `OffsetMap`; then
`RecordFilter` copies what stays, by the rules that stand below under names of their own and in
docs/compaction.md. `Transactions` tells both which batches may go, whatever their keys.

The bytes come from the disk: a batch is believed if its checksum is right, and no number in it
before it was compared with the end of the buffer. Compiled, a walk over a chunk does not hold the
GIL.
"""

import hashlib
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Self, TypeVar

from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    BAD_COUNT,
    BAD_RECORD,
    BY_ABORTED,
    BY_MARKER,
    BY_NULL_KEY,
    BY_SUPERSEDED,
    BY_TOMBSTONE,
    CONTROL,
    CRC_POSITION,
    DELETE_HORIZON,
    FULL,
    HEADER_SIZE,
    IS_CLOSED,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    MIN_RECORD_BYTES,
    NO_TIMESTAMP,
    OFFSET_BACKWARDS,
    REASONS,
    RECORD_GROWTH,
    SHORT_LENGTH,
    SLOT_BYTES,
    TOO_LARGE,
    TRANSACTIONAL,
    WANTS_MORE,
    WRONG_CRC,
    WRONG_MAGIC,
)
from siltstone.protocol.records.batch import HEADER, BatchHeader
from siltstone.protocol.records.build import put_varint
from siltstone.protocol.records.record import (
    VARLONG_BYTES,
    BrokenRecord,
    RecordFront,
    read_front,
    read_varint,
)
from tests.reference.format import INT64_MAX, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32_MAX: Final = (1 << 31) - 1
_UINT32: Final = struct.Struct(">I")
_MASK: Final = (1 << 64) - 1


# Digests of keys ----------------------------------------------------------------------------------


def digest_of(keys: Iterable[bytes]) -> int:
    """Return the digest of a set of keys: a receipt has that of the keys that survive a pass.

    It is the sum, modulo 2^128, of the keys' SipHash-1-3 of 128 bits under the key 0. So it does
    not depend on their order, and each key can be added when it is read. It shows accidental
    differences; it does not protect against forgery.
    """
    return sum(map(sip_hash, keys)) & (1 << 128) - 1


def sip_hash(data: bytes, seed: tuple[int, int] = (0, 0), rounds: tuple[int, int] = (1, 3)) -> int:
    """Return the SipHash of 128 bits, the first half in the low bits (Aumasson, Bernstein).

    ``rounds`` are those of a block and those at the end; the published vectors are of (2, 4).
    """
    low, high = seed
    state = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    whole = len(data) & ~7
    blocks = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    blocks.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for block in blocks:
        state[3] ^= block
        _mix(state, rounds[0])
        state[0] ^= block
    state[2] ^= 0xEE
    _mix(state, rounds[1])
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= 0xDD
    _mix(state, rounds[1])
    return first | (state[0] ^ state[1] ^ state[2] ^ state[3]) << 64


def _mix(state: list[int], rounds: int) -> None:
    a, b, c, d = state
    for _ in range(rounds):
        a = (a + b) & _MASK
        c = (c + d) & _MASK
        b = _rotate(b, 13) ^ a
        d = _rotate(d, 16) ^ c
        a = _rotate(a, 32)
        c = (c + b) & _MASK
        a = (a + d) & _MASK
        b = _rotate(b, 17) ^ c
        d = _rotate(d, 21) ^ a
        c = _rotate(c, 32)
    state[:] = a, b, c, d


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


# The offset map -----------------------------------------------------------------------------------

_SLOT: Final = struct.Struct("=16sq")  # the digest of a key, its offset + 1; 0: an empty slot
_FIRST_SLOTS: Final = 1 << 15


class OffsetMap:
    """Which offset is the last of each key in the dirty section (Kafka: ``SkimpyOffsetMap``).

    A slot is 24 bytes: 128 bits of the key's digest under a secret, and the offset. The key itself
    is not stored. Two keys with one digest would count as one; without the secret, random bytes of
    each map's own, nobody can make such keys, nor many keys for one slot. Compiled, the digest is a
    SipHash; it does not matter which, since it outlives no pass.

    Its memory is taken for a ``with`` block. ``usable`` is Kafka's capacity rule: how many keys
    one pass can take. The map grows to its full size by doubling; below a load of 3/4 probes stay
    short. Compiled, the old memory is freed while its slots move, so that it never takes much more
    than ``memory_bytes``.
    """

    def __init__(self, memory_bytes: int, secret: bytes, load_factor: float = 0.9) -> None:
        self.max_slots = memory_bytes // SLOT_BYTES
        self.usable = int(self.max_slots * load_factor)
        self.keys = 0
        self._slots = 0
        self._memory = bytearray()
        self._secret = secret

    def __enter__(self) -> Self:
        """Take the memory of an empty map."""
        self._open(min(_FIRST_SLOTS, self.max_slots))
        return self

    def __exit__(self, *_: object) -> None:
        """Give the memory back."""
        self._memory = bytearray()
        self.keys = self._slots = 0

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that are taken now."""
        return len(self._memory)

    def put(self, key: "Buffer", offset: int) -> bool:
        """Note the last offset of a key; return False if there is no room for one more."""
        if self.keys >= self.usable:
            return False
        if self.keys * 4 >= self._slots * 3 and self._slots < self.max_slots:
            self._grow()
        digest = self._digest(key)
        at, mark = self._find(digest)
        self.keys += not mark
        _SLOT.pack_into(self._memory, at, digest, offset + 1)
        return True

    def find(self, key: "Buffer") -> int:
        """Return the offset of a key, -1 if the map does not have it."""
        return self._find(self._digest(key))[1] - 1

    def _digest(self, key: "Buffer") -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._secret).digest()

    def _find(self, digest: bytes) -> tuple[int, int]:
        """Return where a digest is, or would go, and its offset + 1 or 0.

        The first place looked at grows with the digest; then one is looked at after the other.
        """
        memory, size = self._memory, len(self._memory)
        at = (int.from_bytes(digest[:8], "little") * (size // SLOT_BYTES) >> 64) * SLOT_BYTES
        while True:
            found, mark = _SLOT.unpack_from(memory, at)
            if not mark or found == digest:
                return at, mark
            at += SLOT_BYTES
            if at == size:
                at = 0

    def _open(self, slots: int) -> None:
        self._memory = bytearray((slots + 1) * SLOT_BYTES)  # one is always empty: probing ends
        self._slots = slots

    def _grow(self) -> None:
        """Double. Old and new slots have the same order, so both are walked once."""
        old = self._memory
        self._open(min(2 * self._slots, self.max_slots))
        for digest, mark in _SLOT.iter_unpack(old):
            if mark:
                _SLOT.pack_into(self._memory, self._find(digest)[0], digest, mark)


# Transactions -------------------------------------------------------------------------------------

Row = TypeVar("Row", bound=tuple[int, ...])


class Transactions(Generic[Row]):
    """The transactions that are open where a walk is (Kafka: ``CleanedTransactionMetadata``).

    ``aborted`` are rows of producer id, first offset, last offset and whatever else. A walk asks
    once for each batch of the log in order, from the first one on; a second walk needs an object of
    its own.
    """

    def __init__(self, aborted: Iterable[Row]) -> None:
        self._coming = deque(sorted(aborted, key=lambda row: row[1]))
        self._aborted: dict[int, Row] = {}  # by producer id, the one that is open
        self._seen: set[int] = set()  # producer ids of open aborted ones whose data was seen
        self._committed: set[int] = set()  # producer ids of which other data was
        self._kept: list[Row] = []

    def take_kept(self) -> list[Row]:
        """Return the aborted transactions whose marker stays with its data, each once.

        They are in the order of their markers; the segment with the marker gets the entry.
        """
        kept, self._kept = self._kept, []
        return kept

    def is_discardable(self, header: BatchHeader, batch: memoryview) -> bool:
        """Tell whether a batch may go, whatever its keys. May be asked twice for a data batch."""
        if not header.is_transactional and not header.is_control:
            return False
        while self._coming and self._coming[0][1] <= header.last_offset:
            row = self._coming.popleft()
            if row[0] >= 0 and row[2] >= header.base_offset and row[0] not in self._aborted:
                self._aborted[row[0]] = row
        if header.is_control:
            return header.count == 0 or self._ends_nothing(header.producer_id, batch)
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        if header.producer_id >= 0:
            self._committed.add(header.producer_id)
        return False

    def _ends_nothing(self, producer_id: int, batch: memoryview) -> bool:
        """Close the transaction that a marker ends; return whether no data of it is left."""
        try:
            marker = read_front(batch, HEADER_SIZE, len(batch))
        except BrokenRecord:
            return False
        if marker.key_size < 4 or producer_id < 0:
            return False
        kind = int.from_bytes(batch[marker.key + 2 : marker.key + 4], "big")
        if kind == 1:  # a commit
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        if kind != 0:  # no abort either
            return False
        row = self._aborted.pop(producer_id, None)
        had_data = producer_id in self._seen
        self._seen.discard(producer_id)
        if row is not None and had_data:
            self._kept.append(row)
        return not had_data


# Batches ------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Whether a walk can go on: with a batch, or not, for a reason and the bytes it would take."""

    header: BatchHeader | None
    status: int = WANTS_MORE
    needed: int = HEADER_SIZE


def find_batch(  # noqa: PLR0911  # a return for each fault
    data: memoryview, *, is_opened: bool, last_offset: int
) -> Place:
    """Return the sound batch at the start of a buffer.

    An opened batch is not protected by its checksum any more: every number in it is suspect.
    """
    if len(data) < HEADER_SIZE:
        return Place(None)
    header = BatchHeader.read(data)
    if header.length < MIN_LENGTH:
        return Place(None, SHORT_LENGTH)
    if header.magic != MAGIC:
        return Place(None, WRONG_MAGIC)
    if header.size > _INT32_MAX:
        return Place(None, TOO_LARGE)
    if header.size > len(data):
        return Place(None, needed=header.size)
    if not is_opened and crc32c(data[ATTRIBUTES_POSITION : header.size]) != header.crc:
        return Place(None, WRONG_CRC)
    if (
        header.last_offset_delta < 0
        or header.base_offset <= last_offset
        or header.last_offset >= INT64_MAX
    ):
        return Place(None, OFFSET_BACKWARDS)
    if not 0 <= header.count <= header.last_offset_delta + 1:
        return Place(None, BAD_COUNT)
    is_plain = is_opened or not header.codec
    if is_plain and header.count * MIN_RECORD_BYTES > header.length - MIN_LENGTH:
        return Place(None, BAD_COUNT)
    return Place(header)


def iterate_records(
    batch: memoryview, header: BatchHeader
) -> Iterator[tuple[int, int, RecordFront]]:
    """Yield the offset of each record, where it begins, and its parts; headers are left unread.

    Raises:
        BrokenRecord: one does not parse, has an offset outside the batch, or leaves bytes behind.
    """
    position = HEADER_SIZE
    for _ in range(header.count):
        record = read_front(batch, position, len(batch))
        if not 0 <= record.offset_delta <= header.last_offset_delta:
            raise BrokenRecord(BAD_RECORD)
        yield header.base_offset + record.offset_delta, position, record
        position = record.stop
    if position != len(batch):
        raise BrokenRecord(BAD_RECORD)


def _check_position(data: memoryview, position: int) -> None:
    if not 0 <= position <= len(data):
        raise ValueError(f"byte {position} is not inside the buffer")


class MapBuilder:
    """Puts the keys of the dirty section into a map (Kafka: ``buildOffsetMapForSegment``).

    Not mapped are markers, aborted data, records below the first dirty offset and records without a
    key. ``latest`` is the last offset that the map covers; the caller moves it over a gap between
    segments.
    """

    def __init__(
        self, offsets: OffsetMap, transactions: Transactions[Any], first_dirty: int
    ) -> None:
        self.first_dirty = first_dirty
        self.latest = first_dirty - 1
        self.last_offset = -1
        self.status = WANTS_MORE
        self.needed = HEADER_SIZE
        self.records = 0
        self.batches = 0
        self._offsets = offsets
        self._transactions = transactions

    def read(self, chunk: "Buffer", position: int = 0, *, is_opened: bool = False) -> int:
        """Map the whole batches of a chunk from a position on; return where they end.

        The status says why they end there: WANTS_MORE if the next batch is not wholly there, and
        takes ``needed`` bytes; IS_CLOSED if it is compressed, and is to be opened and read alone
        with ``is_opened``; FULL if the map has no more room, perhaps in the middle of the batch
        (KAFKA-3894); or the fault of the batch.
        """
        with memoryview(chunk).cast("B") as data:
            _check_position(data, position)
            while True:
                with data[position:] as rest:
                    header, self.status, self.needed = find_batch(
                        rest, is_opened=is_opened, last_offset=self.last_offset
                    )
                    if header is not None:
                        with rest[: header.size] as batch:
                            self.status = self._map(batch, header, is_opened=is_opened)
                if header is None or self.status != WANTS_MORE:
                    return position
                self.batches += 1
                self.last_offset = header.last_offset
                position += header.size

    def _map(self, batch: memoryview, header: BatchHeader, *, is_opened: bool) -> int:
        covered = self.latest
        is_closed = header.codec and not is_opened
        if is_closed and header.is_control:
            return IS_CLOSED
        is_discardable = self._transactions.is_discardable(header, batch)
        is_skipped = is_discardable or header.is_control or header.last_offset < self.first_dirty
        if not is_skipped and header.count > 0:
            if is_closed:
                return IS_CLOSED
            try:
                for offset, _, record in iterate_records(batch, header):
                    if record.key_size >= 0 and offset >= self.first_dirty:
                        key = batch[record.key : record.key + record.key_size]
                        if not self._offsets.put(key, offset):
                            self.latest = max(self.latest, covered)
                            return FULL
                        self.latest = offset
            except BrokenRecord:
                self.latest = max(self.latest, covered)
                return BAD_RECORD
            self.records += header.count
        if header.last_offset >= self.first_dirty:
            self.latest = max(self.latest, header.last_offset)
        return WANTS_MORE


# The rules of what stays --------------------------------------------------------------------------
#
# Kafka: ``Cleaner.checkBatchRetention``, ``Cleaner.shouldRetainRecord`` and
# ``MemoryRecords.filterTo``. Whether a batch stays for its transaction, `Transactions` says before.


class Mode(Enum):
    """The decision about a batch."""

    DROP = auto()
    """Nothing of it stays; its records need not be read."""
    WHOLE = auto()
    """It stays as it is."""
    STAMP = auto()
    """All of it stays, and gets a delete horizon."""
    SOME = auto()
    """The fates of its records decide."""


class Fate(Enum):
    """The decision about a record."""

    KEEP = auto()
    KEEP_TOMBSTONE = auto()
    SUPERSEDED = auto()
    EXPIRED = auto()
    NO_KEY = auto()


_KEPT: Final = (Fate.KEEP, Fate.KEEP_TOMBSTONE)
_REASONS: Final = {
    Fate.SUPERSEDED: BY_SUPERSEDED,
    Fate.EXPIRED: BY_TOMBSTONE,
    Fate.NO_KEY: BY_NULL_KEY,
}


def has_expired(header: BatchHeader, now: int) -> bool:
    """Tell whether a batch has a delete horizon that is reached (KIP-534).

    The horizon is kept in the field of the base timestamp.
    """
    return header.has_delete_horizon and header.base_timestamp <= now


def mode_of_control(header: BatchHeader, is_discardable: bool, is_expired: bool) -> Mode:
    """Decide on a control batch: a marker of which no data is left goes with its horizon."""
    if header.count == 0 or (is_discardable and is_expired):
        return Mode.DROP
    if is_discardable and not header.has_delete_horizon:
        return Mode.STAMP
    return Mode.WHOLE


def mode_of_data(header: BatchHeader, is_discardable: bool, latest: int) -> Mode:
    """Decide on a batch of data by its header: aborted data goes at once.

    A batch that the map does not cover stays whole. Its records are read only if tombstones among
    them need a horizon.
    """
    if is_discardable or header.count == 0:
        return Mode.DROP
    if header.has_delete_horizon and header.base_offset > latest:
        return Mode.WHOLE
    return Mode.SOME


def fate_of_record(record: RecordFront, offset: int, latest: int, is_expired: bool) -> Fate:
    """Decide on a record, if no later one has its key; the first rule that applies wins."""
    if offset > latest:  # the map does not cover it
        return Fate.KEEP if record.value_size >= 0 else Fate.KEEP_TOMBSTONE
    if record.key_size < 0:
        return Fate.NO_KEY
    if record.value_size >= 0:
        return Fate.KEEP
    return Fate.EXPIRED if is_expired else Fate.KEEP_TOMBSTONE


def is_superseded(offset: int, last_offset_of_key: int) -> bool:
    """Tell whether a later record has the same key; this precedes the rules about tombstones."""
    return last_offset_of_key > offset


def keeps_header(
    header: BatchHeader, high_watermark: int, producers: Sequence[tuple[int, int, int]]
) -> bool:
    """Tell whether the header of a batch stays when none of its records does.

    Recovery learns a producer's sequence from its last batch (KAFKA-5490), and the log end offset
    from the last batch of the log (KAFKA-17076, KAFKA-20452).
    """
    return header.next_offset == high_watermark or is_last_of_producer(header, producers)


def is_last_of_producer(header: BatchHeader, producers: Sequence[tuple[int, int, int]]) -> bool:
    """Tell whether a batch is the newest data, or the newest marker, of an active producer."""
    for producer_id, epoch, last_data_offset in producers:
        if producer_id == header.producer_id:
            if last_data_offset >= 0:
                return header.last_offset == last_data_offset
            return header.is_control and header.producer_epoch == epoch
    return False


# What stays ---------------------------------------------------------------------------------------


class RecordFilter:
    """Copies what stays of batches (Kafka: ``Cleaner.cleanInto``), and counts what does not.

    ``latest`` is the last offset that the map covers, ``now_ms`` when the pass began,
    ``retention_ms`` the ``delete.retention.ms``. ``producers`` are rows of producer id, epoch and
    last data offset, -1 if it has only markers. ``dropped`` has records and bytes for each reason.
    ``next_horizon`` is the smallest delete horizon in what was written, INT64_MAX
    without one; ``key_digest`` is `digest_of` the keys that stay and are covered by the map.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: Transactions[Any],
        *,
        latest: int,
        now_ms: int,
        retention_ms: int,
        high_watermark: int,
        producers: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        self.last_offset = -1
        self.status = WANTS_MORE
        self.needed = HEADER_SIZE
        self.records_read = self.batches_read = 0
        self.records_written = self.batches_written = 0
        self.batches_rebuilt = self.batches_emptied = 0
        self.horizons_set = self.horizons_reached = 0
        self.next_horizon = INT64_MAX
        self.key_digest = 0
        self._drops = [[0, 0] for _ in range(REASONS)]
        self._offsets = offsets
        self._transactions = transactions
        self.latest = latest
        self._now = now_ms
        self._retention = retention_ms
        self._high_watermark = high_watermark
        self._producers = tuple(producers)
        self._output = bytearray()

    @property
    def dropped(self) -> list[tuple[int, int]]:
        """Return records and bytes that were dropped, by reason."""
        return [(records, size) for records, size in self._drops]

    @property
    def size(self) -> int:
        """Return the bytes that were written since the last `clear`."""
        return len(self._output)

    def copy(self, chunk: "Buffer", position: int = 0) -> int:
        """Copy what stays of the whole batches of a chunk from a position on; return their end.

        The status says why they end there, as of `MapBuilder.read`; a batch that IS_CLOSED is
        opened and goes through `copy_opened`. Each batch may be copied only once, since it may
        begin or end a transaction.
        """
        with memoryview(chunk).cast("B") as data:
            _check_position(data, position)
            while True:
                with data[position:] as rest:
                    header = self._find(rest, is_opened=False)
                    if header is None:
                        return position
                    with rest[: header.size] as batch:
                        self._output += self._judge(batch, header) or b""
                if self.status != WANTS_MORE:
                    return position
                position += header.size

    def copy_opened(self, batch: "Buffer", opened: "Buffer") -> bytearray | None:
        """Copy what stays of a compressed batch, of which ``opened`` has the records unfolded.

        Returns:
            A new batch, if that is what stays: it has to be compressed again, gets its
            checksum then, and is for `append`. Else None.
        """
        with memoryview(opened).cast("B") as data:
            header = self._find(data, is_opened=True)
            if header is None:
                return None
            written = self._judge(data, header, is_opened=True)
            if isinstance(written, bytearray) and len(written) > HEADER_SIZE:
                return written
            if written is not None:
                self.append(batch if written is data else written)
        return None

    def append(self, batch: "Buffer") -> None:
        """Add a batch to what is written."""
        self._output += batch

    def written(self) -> memoryview:
        """Return what was written since the last `clear`, to be let go before the next copy."""
        return memoryview(self._output)

    def clear(self) -> None:
        """Begin another output, in the same memory where it is compiled."""
        self._output = bytearray()

    shrink = clear
    """Free the memory that a large batch took, too."""

    def _find(self, data: memoryview, *, is_opened: bool) -> BatchHeader | None:
        header, self.status, self.needed = find_batch(
            data, is_opened=is_opened, last_offset=self.last_offset
        )
        return header

    def _judge(
        self, batch: memoryview, header: BatchHeader, *, is_opened: bool = False
    ) -> bytearray | memoryview | None:
        """Return what is written of a batch; None if nothing is, or the status says why not."""
        is_closed = header.codec != 0 and not is_opened
        if is_closed and header.is_control:
            self.status = IS_CLOSED
            return None
        is_discardable = self._transactions.is_discardable(header, batch)
        is_expired = has_expired(header, self._now)
        if header.is_control:
            mode = mode_of_control(header, is_discardable, is_expired)
            if mode is Mode.DROP:
                self._drop(BY_MARKER, header.count, header.size - HEADER_SIZE)
                self.horizons_reached += header.count
        else:
            mode = mode_of_data(header, is_discardable, self.latest)
            if is_discardable:
                self._drop(BY_ABORTED, header.count, header.size - HEADER_SIZE)
            elif mode is Mode.SOME and is_closed:
                self.status = IS_CLOSED
                return None
        try:
            fates = self._fates(batch, header, mode, is_expired)
        except BrokenRecord:
            self.status = BAD_RECORD
            return None
        may_grow = mode in {Mode.STAMP, Mode.SOME}
        if may_grow and header.size + RECORD_GROWTH * header.count > _INT32_MAX:
            self.status = TOO_LARGE
            return None
        self.records_read += header.count
        self.batches_read += 1
        self.last_offset = header.last_offset
        return self._write(batch, header, mode, fates, is_opened=is_opened)

    def _fates(
        self, batch: memoryview, header: BatchHeader, mode: Mode, is_expired: bool
    ) -> list[Fate]:
        """Decide on the records of a batch, unless it goes or stays unread.

        Raises:
            BrokenRecord: one of them does not parse.
        """
        if mode is Mode.STAMP:
            _check_records(batch, header.count)
            return [Fate.KEEP] * header.count
        if mode is not Mode.SOME:
            return []
        fates = []
        for offset, start, record in iterate_records(batch, header):
            fate = fate_of_record(record, offset, self.latest, is_expired)
            if offset <= self.latest and fate is not Fate.NO_KEY:
                key = bytes(batch[record.key : record.key + record.key_size])
                if is_superseded(offset, self._offsets.find(key)):
                    fate = Fate.SUPERSEDED
                elif fate is Fate.EXPIRED:
                    self.horizons_reached += 1
                else:
                    self.key_digest = (self.key_digest + sip_hash(key)) & (1 << 128) - 1
            if fate in _REASONS:
                self._drop(_REASONS[fate], 1, record.stop - start)
            fates.append(fate)
        return fates

    def _drop(self, reason: int, records: int, size: int) -> None:
        self._drops[reason][0] += records
        self._drops[reason][1] += size

    def _write(
        self,
        batch: memoryview,
        header: BatchHeader,
        mode: Mode,
        fates: list[Fate],
        *,
        is_opened: bool,
    ) -> bytearray | memoryview | None:
        """Return what stays of a batch, None if nothing does."""
        kept = header.count if mode is Mode.WHOLE else sum(fate in _KEPT for fate in fates)
        if not kept and not keeps_header(header, self._high_watermark, self._producers):
            return None
        self.batches_written += 1
        self.records_written += kept
        if not kept:
            self.batches_emptied += header.count > 0
            return emptied(header)
        has_tombstone = Fate.KEEP_TOMBSTONE in fates
        is_stamped = mode is Mode.STAMP or (has_tombstone and not header.has_delete_horizon)
        written: bytearray | memoryview = batch
        if kept < header.count or is_stamped:
            self.batches_rebuilt += 1
            self.horizons_set += is_stamped
            horizon = _wrapped(self._now + self._retention) if is_stamped else None
            header, written = rebuilt(batch, header, fates, horizon, is_opened=is_opened)
        if header.has_delete_horizon:
            self.next_horizon = min(self.next_horizon, header.base_timestamp)
        return written


def emptied(header: BatchHeader) -> bytearray:
    """Return a batch of which only the header stays."""
    new = header._replace(
        length=MIN_LENGTH,
        attributes=header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        base_timestamp=NO_TIMESTAMP,
        count=0,
    )
    batch = bytearray(HEADER_SIZE)
    seal(batch, new)
    return batch


def rebuilt(
    batch: memoryview,
    header: BatchHeader,
    fates: Sequence[Fate],
    horizon: int | None,
    *,
    is_opened: bool,
) -> tuple[BatchHeader, bytearray]:
    """Return a batch of the records that stay (Kafka: ``buildRetainedRecordsInto``).

    The base timestamp is the horizon of the batch, or that of the first record that stays. Deltas
    are computed from it, so that records keep their timestamps. A batch that was opened gets its
    checksum when it is closed again.
    """
    base = header.base_timestamp if header.has_delete_horizon else None
    attributes = header.attributes
    if horizon is not None:
        base = horizon
        attributes |= DELETE_HORIZON
    largest = NO_TIMESTAMP
    written = bytearray(HEADER_SIZE)
    stop = HEADER_SIZE
    for fate in fates:
        start = stop
        size, body = read_varint(batch, start, len(batch))
        stop = body + size
        if fate not in _KEPT:
            continue
        delta, tail = read_varint(batch, body + 1, stop, VARLONG_BYTES)
        timestamp = header.max_timestamp
        if not header.is_log_append_time:
            timestamp = _wrapped(header.base_timestamp + delta)
        if base is None:
            base = timestamp
        largest = max(largest, timestamp)
        new_delta = _wrapped(timestamp - base)
        if new_delta != delta:
            head = bytes(batch[body : body + 1]) + put_varint(new_delta)
            written += put_varint(len(head) + stop - tail) + head
            start = tail
        written += batch[start:stop]
    if header.is_log_append_time:
        largest = header.max_timestamp
    new = header._replace(
        length=len(written) - LOG_OVERHEAD,
        attributes=attributes,
        base_timestamp=base if base is not None else NO_TIMESTAMP,
        max_timestamp=largest,
        count=sum(fate in _KEPT for fate in fates),
    )
    if is_opened:
        HEADER.pack_into(written, 0, *new)
    else:
        seal(written, new)
    return new, written


def seal(batch: bytearray, header: BatchHeader) -> None:
    """Write the header of a batch, with the checksum of its bytes."""
    HEADER.pack_into(batch, 0, *header)
    with memoryview(batch) as whole:
        _UINT32.pack_into(batch, CRC_POSITION, crc32c(whole[ATTRIBUTES_POSITION:]))


def _check_records(batch: memoryview, count: int) -> None:
    """Raise BrokenRecord unless so many records fill a batch."""
    position = HEADER_SIZE
    for _ in range(count):
        position = read_front(batch, position, len(batch)).stop
    if position != len(batch):
        raise BrokenRecord(BAD_RECORD)


def _wrapped(number: int) -> int:
    """Return a number of 64 bits, as a sum of two of them comes out in C."""
    return (number + (1 << 63) & _MASK) - (1 << 63)
