"""The steps of a cleaner's pass over batches and records; `tests/reference/compaction.py` explains each.

Each walk over a chunk is one call without the GIL. The bytes come from the disk: a batch is trusted
only if its checksum is right, and a number in it only after it was compared with the end of the
buffer. Keys are hashed some records before their look-up, so that their slots are fetched from
memory meanwhile.
"""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from siltstone.protocol.core._format cimport *

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Generic, Self, TypeVar

    from typing_extensions import Buffer

    _Row = TypeVar("_Row", bound=tuple[Any, ...])


cdef extern from "<sys/mman.h>" nogil:
    int PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MADV_DONTNEED, MADV_HUGEPAGE
    void* MAP_FAILED
    void* mmap(void* address, size_t size, int protection, int flags, int file, long offset)
    int munmap(void* address, size_t size)
    int madvise(void* address, size_t size, int advice)

cdef extern from * nogil:
    void __builtin_prefetch(const void* address)
    ctypedef unsigned long long Wide "unsigned __int128"

ctypedef const unsigned char* Octets

cdef enum:
    FIRST_SLOTS = 1 << 15
    FIRST_PRODUCERS = 256
    HUGE_FROM = 4 << 20  # larger maps use large pages, as address look-ups cost as much as reads
    PLANS = 8192
    SLICE = 1 << 16  # slots that move before the memory of the old slots is released
    WINDOW = 32  # records whose slots are fetched at a time

prepare()


# Digests of keys ---------------------------------------------------------------------------------

cdef struct Digest:
    unsigned long long low
    unsigned long long high


cdef inline unsigned long long rotated(unsigned long long number, int bits) noexcept nogil:
    return number << bits | number >> (64 - bits)


cdef inline void mix(unsigned long long* state, int rounds) noexcept nogil:
    cdef unsigned long long a = state[0], b = state[1], c = state[2], d = state[3]
    while rounds > 0:
        rounds -= 1
        a += b
        c += d
        b = rotated(b, 13) ^ a
        d = rotated(d, 16) ^ c
        a = rotated(a, 32)
        c += b
        a += d
        b = rotated(b, 17) ^ c
        d = rotated(d, 21) ^ a
        c = rotated(c, 32)
    state[0] = a
    state[1] = b
    state[2] = c
    state[3] = d


cdef inline void sip_hash(Octets key, Py_ssize_t size, Digest* secret, Digest* digest) noexcept nogil:
    """SipHash-1-3 of 128 bits; see `reference.compaction.sip_hash`."""
    cdef unsigned long long[4] state
    cdef unsigned long long block
    cdef unsigned long long last = <unsigned long long> size << 56
    cdef int at
    state[0] = secret.low ^ 0x736F6D6570736575ULL
    state[1] = secret.high ^ 0x646F72616E646F6DULL ^ 0xEE
    state[2] = secret.low ^ 0x6C7967656E657261ULL
    state[3] = secret.high ^ 0x7465646279746573ULL
    while size >= 8:
        block = read_little64(key)
        state[3] ^= block
        mix(state, 1)
        state[0] ^= block
        key += 8
        size -= 8
    for at in range(<int> size):
        last |= <unsigned long long> key[at] << (8 * at)
    state[3] ^= last
    mix(state, 1)
    state[0] ^= last
    state[2] ^= 0xEE
    mix(state, 3)
    digest.low = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= 0xDD
    mix(state, 3)
    digest.high = state[0] ^ state[1] ^ state[2] ^ state[3]


cdef inline void add_key(Digest* total, Octets key, Py_ssize_t size) noexcept nogil:
    """Add a key to the digest of a set; the secret is 0, so that any program can compute it."""
    cdef Digest public, digest
    public.low = public.high = 0
    sip_hash(key, size, &public, &digest)
    total.low += digest.low
    total.high += digest.high + (total.low < digest.low)


cdef object number_in(Digest digest):
    return <object> digest.high << 64 | <object> digest.low


def digest_of(object keys: Iterable[bytes]) -> int:
    """Return the digest of a set of keys; see `reference.compaction.digest_of`."""
    cdef Digest total
    cdef bytes key
    total.low = total.high = 0
    for key in keys:
        add_key(&total, <Octets> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    return number_in(total)


# The offset map ----------------------------------------------------------------------------------

cdef struct Slot:
    Digest key
    long long mark  # the offset + 1; 0 in an empty slot


cdef inline Slot* home_of(Slot* table, long long count, Digest* key) noexcept nogil:
    return &table[<long long> (<Wide> key.low * <Wide> count >> 64)]


cdef inline void fetch(Slot* slot) noexcept nogil:
    """Prefetch a slot; one slot in four is in two cache lines."""
    __builtin_prefetch(slot)
    __builtin_prefetch(&slot.mark)


cdef inline Slot* find_slot(Slot* table, long long count, Digest* key) noexcept nogil:
    """Return the slot of a key, or the slot that the key would get."""
    cdef Slot* slot = home_of(table, count, key)
    while slot.mark != 0 and (slot.key.low != key.low or slot.key.high != key.high):
        slot += 1
        if slot == table + count:
            slot = table
    return slot


@cython.final
cdef class OffsetMap:
    """The last offset of each key of the dirty section; see `reference.compaction.OffsetMap`."""

    cdef readonly long long max_slots, usable, keys
    cdef long long slots, count
    cdef Digest secret
    cdef Slot* table

    def __cinit__(self, long long memory_bytes, bytes secret not None, double load_factor=0.9):
        if len(secret) != sizeof(Digest):
            raise ValueError(f"a secret of {len(secret)} bytes: a map takes {sizeof(Digest)}")
        self.max_slots = memory_bytes // SLOT_BYTES
        self.usable = <long long> (self.max_slots * load_factor)
        memcpy(&self.secret, PyBytes_AS_STRING(secret), sizeof(Digest))

    def __dealloc__(self):
        self.close()

    def __enter__(self) -> Self:
        self.open(min(<long long> FIRST_SLOTS, self.max_slots))
        return self

    def __exit__(self, *_: object):
        self.close()

    @property
    def memory_bytes(self) -> int:
        """Return how many bytes of memory the map takes now."""
        return self.count * SLOT_BYTES

    cdef int open(self, long long slots) except -1 nogil:
        cdef size_t size = <size_t> (slots + 1) * sizeof(Slot)  # one is always empty: probing ends
        cdef void* memory = mmap(
            NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
        )
        if memory == MAP_FAILED:
            with gil:
                raise MemoryError(f"no memory for an offset map of {slots} slots")
        if size >= HUGE_FROM:
            madvise(memory, size, MADV_HUGEPAGE)
        self.table = <Slot*> memory
        self.slots = slots
        self.count = slots + 1
        return 0

    cdef void close(self) noexcept nogil:
        if self.table != NULL:
            munmap(self.table, <size_t> self.count * sizeof(Slot))
        self.table = NULL
        self.slots = self.count = self.keys = 0

    cdef int reserve(self, long long more) except -1 nogil:
        """Grow the map, if possible, so that probes stay short with so many more keys."""
        if (self.keys + more) * 4 > self.slots * 3 and self.slots < self.max_slots:
            self.grow()
        return 0

    cdef inline bint put(self, Digest* key, long long offset) noexcept nogil:
        cdef Slot* slot
        if self.keys >= self.usable:
            return False
        slot = find_slot(self.table, self.count, key)
        if slot.mark == 0:
            slot.key = key[0]
            self.keys += 1
        slot.mark = offset + 1
        return True

    cdef inline long long find(self, Digest* key) noexcept nogil:
        """Return the offset of a key, or -1 if the map does not have the key."""
        return find_slot(self.table, self.count, key).mark - 1

    cdef int grow(self) except -1 nogil:
        """Double the map. Old and new slots have the same order, so each is walked once."""
        cdef Slot* old = self.table
        cdef long long count = self.count
        cdef long long index
        cdef Slot* slot
        self.open(min(2 * self.slots, self.max_slots))
        for index in range(count):
            if old[index].mark != 0:
                slot = find_slot(self.table, self.count, &old[index].key)
                slot[0] = old[index]
            if (index + 1) % SLICE == 0:  # whole pages: a slice is a multiple of them
                madvise(&old[index + 1 - SLICE], SLICE * sizeof(Slot), MADV_DONTNEED)
        munmap(old, <size_t> count * sizeof(Slot))
        return 0


# Transactions ------------------------------------------------------------------------------------

cdef struct Aborted:
    long long producer_id
    long long first_offset
    long long last_offset


cdef struct Producer:
    long long id
    Py_ssize_t aborted  # the number of its open aborted transaction, from 1; 0 without one
    bint is_known  # false in an empty place
    bint has_aborted  # whether data of the aborted transaction was seen
    bint has_committed  # whether other data was seen


@cython.final
cdef class Transactions:  # type: Generic[_Row]
    """The transactions that are open at a position; see `reference.compaction.Transactions`."""

    cdef list rows
    cdef Aborted* aborted
    cdef Py_ssize_t count, next
    cdef Py_ssize_t* kept
    cdef Py_ssize_t kept_count, taken
    cdef Producer* producers
    cdef Py_ssize_t room, used

    def __cinit__(self, object aborted: Iterable[_Row]):
        cdef Py_ssize_t index
        self.rows = sorted(aborted, key=lambda row: row[1])
        self.count = len(self.rows)
        self.aborted = <Aborted*> calloc(max(self.count, 1), sizeof(Aborted))
        self.kept = <Py_ssize_t*> calloc(max(self.count, 1), sizeof(Py_ssize_t))
        self.room = FIRST_PRODUCERS
        self.producers = <Producer*> calloc(self.room, sizeof(Producer))
        if self.aborted == NULL or self.kept == NULL or self.producers == NULL:
            raise MemoryError
        for index in range(self.count):
            row = self.rows[index]
            self.aborted[index].producer_id = row[0]
            self.aborted[index].first_offset = row[1]
            self.aborted[index].last_offset = row[2]

    def __dealloc__(self):
        free(self.aborted)
        free(self.kept)
        free(self.producers)

    def take_kept(self) -> list[_Row]:
        """Return the aborted transactions that stay; see `reference.compaction.Transactions`."""
        kept = [self.rows[self.kept[index]] for index in range(self.taken, self.kept_count)]
        self.taken = self.kept_count
        return kept

    cdef int is_discardable(self, Octets batch, Header* header) except -1 nogil:
        cdef Producer* producer
        if not header.attributes & (TRANSACTIONAL | CONTROL):
            return False
        self.begin(header)
        if header.attributes & CONTROL:
            return header.count == 0 or self.ends_nothing(batch, header)
        if header.producer_id < 0:
            return False
        producer = self.find(header.producer_id)
        if producer.aborted:
            producer.has_aborted = True
            return True
        producer.has_committed = True
        return False

    cdef int begin(self, Header* header) except -1 nogil:
        """Open the aborted transactions that begin at or before the end of a batch."""
        cdef Aborted* aborted
        cdef Producer* producer
        while self.next < self.count:
            aborted = &self.aborted[self.next]
            if aborted.first_offset > header.base_offset + header.last_offset_delta:
                break
            self.next += 1
            if aborted.producer_id >= 0 and aborted.last_offset >= header.base_offset:
                producer = self.find(aborted.producer_id)
                if producer.aborted == 0:
                    producer.aborted = self.next
                    producer.has_aborted = False
        return 0

    cdef int ends_nothing(self, Octets batch, Header* header) except -1 nogil:
        """Close the transaction that a marker ends; return whether none of its data is left."""
        cdef Record marker
        cdef Producer* producer
        cdef int kind
        cdef bint had_data
        if read_front(batch, HEADER_SIZE, header.length + LOG_OVERHEAD, &marker) < 0:
            return False
        if marker.key_size < 4 or header.producer_id < 0:
            return False
        kind = read_int16(batch, marker.key + 2)  # 0 is an abort, 1 is a commit
        if kind == 1:
            producer = self.find(header.producer_id)
            had_data = producer.has_committed
            producer.has_committed = False
            return not had_data
        if kind != 0:
            return False
        producer = self.find(header.producer_id)
        had_data = producer.aborted and producer.has_aborted
        if had_data:
            self.kept[self.kept_count] = producer.aborted - 1
            self.kept_count += 1
        producer.aborted = 0
        producer.has_aborted = False
        return not had_data

    cdef Producer* find(self, long long producer_id) except NULL nogil:
        """Return the place of a producer; add the producer if it is new."""
        cdef Producer* producer = self.place_of(producer_id)
        if not producer.is_known:
            if (self.used + 1) * 4 > self.room * 3:
                self.grow()
                producer = self.place_of(producer_id)
            producer.id = producer_id
            producer.is_known = True
            self.used += 1
        return producer

    cdef Producer* place_of(self, long long producer_id) noexcept nogil:
        cdef unsigned long long spread = <unsigned long long> producer_id * 0x9E3779B97F4A7C15ULL
        cdef Py_ssize_t place = <Py_ssize_t> (<Wide> spread * <Wide> self.room >> 64)
        while self.producers[place].is_known and self.producers[place].id != producer_id:
            place += 1
            if place == self.room:
                place = 0
        return &self.producers[place]

    cdef int grow(self) except -1 nogil:
        """Double the table, and drop producers without an open transaction."""
        cdef Producer* old = self.producers
        cdef Py_ssize_t count = self.room
        cdef Py_ssize_t index
        self.producers = <Producer*> calloc(2 * count, sizeof(Producer))
        if self.producers == NULL:
            self.producers = old
            with gil:
                raise MemoryError
        self.room = 2 * count
        self.used = 0
        for index in range(count):
            if old[index].is_known and (old[index].aborted or old[index].has_committed):
                self.place_of(old[index].id)[0] = old[index]
                self.used += 1
        free(old)
        return 0


# Batches -----------------------------------------------------------------------------------------

cdef long long find_batch(Octets data, Py_ssize_t left, bint is_opened, long long last_offset, Header* header) noexcept nogil:
    """Return the size of the batch that begins here if it is sound, or its fault.

    A size above ``left`` means that the chunk must first have so many bytes of the batch.
    """
    cdef long long size, last
    if left < HEADER_SIZE:
        return HEADER_SIZE
    header[0] = read_header(data)
    size = header.length + LOG_OVERHEAD
    if header.length < MIN_LENGTH:
        return SHORT_LENGTH
    if header.magic != MAGIC:
        return WRONG_MAGIC
    if size > INT32_MAX:
        return TOO_LARGE
    if size > left:
        return size
    if not is_opened and batch_checksum(data, header.length) != header.crc:
        return WRONG_CRC
    last = header.last_offset_delta
    if last < 0 or header.base_offset <= last_offset or header.base_offset >= INT64_MAX - last:
        return OFFSET_BACKWARDS
    if header.count < 0 or header.count > last + 1:
        return BAD_COUNT
    if (
        (is_opened or not header.attributes & CODEC_MASK)
        and header.count * MIN_RECORD_BYTES > header.length - MIN_LENGTH
    ):
        return BAD_COUNT
    return size


cdef inline bint is_whole(long long size, Py_ssize_t left, int* status, long long* needed) noexcept nogil:
    """Return whether the chunk has the whole batch that `find_batch` found; if not, note why."""
    if size < 0:
        status[0] = <int> size
    elif size > left:
        needed[0] = size
    else:
        return True
    return False


cdef struct MappedKey:
    Digest key
    long long offset
    long long covered  # the last offset that the map covers before this batch


@cython.final
cdef class MapBuilder:
    """Puts the keys of the dirty section into a map; see `reference.compaction.MapBuilder`."""

    cdef public long long latest
    cdef readonly long long first_dirty, last_offset, needed, records, batches
    cdef readonly int status
    cdef OffsetMap offsets
    cdef Transactions transactions
    cdef MappedKey[WINDOW] window
    cdef int waiting

    def __cinit__(
        self, OffsetMap offsets not None, Transactions transactions not None: Transactions[Any],
        long long first_dirty,
    ):
        self.offsets = offsets
        self.transactions = transactions
        self.first_dirty = first_dirty
        self.latest = first_dirty - 1
        self.last_offset = -1
        self.needed = HEADER_SIZE

    def read(self, object chunk: Buffer, Py_ssize_t position=0, *, bint is_opened=False) -> int:
        """Map the whole batches of a chunk; see `reference.compaction.MapBuilder.read`."""
        cdef Py_buffer view
        take_rest(chunk, &view, position)
        try:
            with nogil:
                position = self.walk(<Octets> view.buf, position, view.len, is_opened)
        finally:
            PyBuffer_Release(&view)
        return position

    cdef Py_ssize_t walk(self, Octets data, Py_ssize_t position, Py_ssize_t end, bint is_opened) except -1 nogil:
        cdef Header header
        cdef long long covered = self.latest
        cdef long long size, last_offset
        cdef bint is_skipped, is_closed
        self.status = WANTS_MORE
        self.waiting = 0
        while True:
            size = find_batch(data + position, end - position, is_opened, self.last_offset, &header)
            if not is_whole(size, end - position, &self.status, &self.needed):
                break
            is_closed = header.attributes & CODEC_MASK and not is_opened
            if is_closed and header.attributes & CONTROL:
                self.status = IS_CLOSED
                break
            last_offset = header.base_offset + header.last_offset_delta
            is_skipped = self.transactions.is_discardable(data + position, &header)
            if (
                not is_skipped
                and not header.attributes & CONTROL
                and last_offset >= self.first_dirty
                and header.count > 0
            ):
                if is_closed:
                    self.status = IS_CLOSED
                    break
                self.status = self.map_batch(data + position, size, &header, covered)
                if self.status != WANTS_MORE:
                    break
                self.records += header.count
            self.batches += 1
            self.last_offset = last_offset
            if last_offset >= self.first_dirty:
                covered = last_offset
            position += size
        if self.status != FULL:
            if self.put_waiting():
                self.latest = max(self.latest, covered)
            else:
                self.status = FULL
        return position

    cdef int map_batch(self, Octets batch, Py_ssize_t end, Header* header, long long covered) except? -1 nogil:
        """Put the keys of a batch into the map; return WANTS_MORE, FULL or BAD_RECORD."""
        cdef Py_ssize_t position = HEADER_SIZE
        cdef Digest secret = self.offsets.secret
        cdef long long left = header.count
        cdef long long offset
        cdef MappedKey* mapped
        cdef Record record
        while left > 0:
            left -= 1
            if read_front(batch, position, end, &record) < 0:
                return BAD_RECORD
            if record.offset_delta < 0 or record.offset_delta > header.last_offset_delta:
                return BAD_RECORD
            position = record.stop
            offset = header.base_offset + record.offset_delta
            if record.key_size < 0 or offset < self.first_dirty:
                continue
            mapped = &self.window[self.waiting]
            sip_hash(batch + record.key, record.key_size, &secret, &mapped.key)
            mapped.offset = offset
            mapped.covered = covered
            fetch(home_of(self.offsets.table, self.offsets.count, &mapped.key))
            self.waiting += 1
            if self.waiting == WINDOW and not self.put_waiting():
                return FULL
        return WANTS_MORE if position == end else BAD_RECORD

    cdef int put_waiting(self) except -1 nogil:
        """Put a window of keys into the map; return False if there is no room for a key."""
        cdef int index
        cdef long long latest = self.latest
        cdef bint has_room = True
        cdef MappedKey* mapped
        self.offsets.reserve(self.waiting)
        for index in range(self.waiting):
            mapped = &self.window[index]
            has_room = self.offsets.put(&mapped.key, mapped.offset)
            if not has_room:
                latest = max(latest, mapped.covered)
                break
            latest = mapped.offset
        self.latest = latest
        self.waiting = 0
        return has_room


cdef int take_rest(object buffer, Py_buffer* view, Py_ssize_t position) except -1:
    """Acquire a buffer that must contain a position; the caller releases the buffer."""
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    if position < 0 or position > view.len:
        PyBuffer_Release(view)
        raise ValueError(f"byte {position} is not inside the buffer")
    return 0


# The rules of what stays -------------------------------------------------------------------------

cdef enum Mode:
    DROP  # nothing of the batch stays: its records are not read
    WHOLE  # the batch stays unchanged
    STAMP  # all of the batch stays, and it gets a delete horizon
    SOME  # the fates of its records decide

cdef enum Fate:
    KEEP
    KEEP_TOMBSTONE
    SUPERSEDED
    EXPIRED
    NO_KEY


cdef inline bint has_expired(Header* header, long long now) noexcept nogil:
    return header.attributes & DELETE_HORIZON and header.base_timestamp <= now


cdef inline Mode mode_of_control(Header* header, bint is_discardable, bint is_expired) noexcept nogil:
    if header.count == 0 or (is_discardable and is_expired):
        return DROP
    if is_discardable and not header.attributes & DELETE_HORIZON:
        return STAMP
    return WHOLE


cdef inline Mode mode_of_data(Header* header, bint is_discardable, long long latest) noexcept nogil:
    if is_discardable or header.count == 0:
        return DROP
    if header.attributes & DELETE_HORIZON and header.base_offset > latest:
        return WHOLE
    return SOME


cdef inline Fate fate_of_record(Record* record, long long offset, long long latest, bint is_expired) noexcept nogil:
    if offset > latest:
        return KEEP if record.value_size >= 0 else KEEP_TOMBSTONE
    if record.key_size < 0:
        return NO_KEY
    if record.value_size >= 0:
        return KEEP
    return EXPIRED if is_expired else KEEP_TOMBSTONE


cdef inline bint is_superseded(long long offset, long long last_offset_of_key) noexcept nogil:
    return last_offset_of_key > offset


# What stays --------------------------------------------------------------------------------------

cdef struct LastOfProducer:
    long long producer_id
    long long epoch
    long long last_data_offset  # -1 if there are only markers


cdef struct Plan:
    Py_ssize_t position
    Py_ssize_t first_fate
    Mode mode


cdef struct JudgedRecord:
    Digest key
    Octets bytes_of_key
    long long key_size
    long long offset
    long long size
    Py_ssize_t place  # the place of its fate
    Fate fate


cdef struct Dropped:
    long long records
    long long bytes


@cython.final
cdef class RecordFilter:
    """Copies the records that stay; see `reference.compaction.RecordFilter`.

    A chunk is walked twice: `plan` decides about its batches and records, `emit` writes the output.
    """

    cdef readonly long long last_offset, needed, records_read, batches_read, records_written
    cdef readonly long long batches_written, batches_rebuilt, batches_emptied, horizons_set
    cdef readonly long long horizons_reached, next_horizon, latest
    cdef readonly int status
    cdef readonly Py_ssize_t size
    cdef long long now, retention, high_watermark
    cdef OffsetMap offsets
    cdef Transactions transactions
    cdef LastOfProducer* producers
    cdef Py_ssize_t producer_count
    cdef Digest digest
    cdef Dropped[REASONS] drops
    cdef JudgedRecord[WINDOW] window
    cdef int waiting
    cdef Plan* plans
    cdef Py_ssize_t plan_count
    cdef unsigned char* fates
    cdef Py_ssize_t fate_room
    cdef bytearray buffer
    cdef unsigned char* output
    cdef Py_ssize_t room

    def __cinit__(
        self, OffsetMap offsets not None, Transactions transactions not None: Transactions[Any], *,
        long long latest, long long now_ms, long long retention_ms, long long high_watermark,
        object producers: Iterable[tuple[int, int, int]] = (),
    ):
        cdef list rows = sorted(producers)
        cdef Py_ssize_t index
        self.offsets = offsets
        self.transactions = transactions
        self.latest = latest
        self.now = now_ms
        self.retention = retention_ms
        self.high_watermark = high_watermark
        self.last_offset = -1
        self.needed = HEADER_SIZE
        self.next_horizon = INT64_MAX
        self.producer_count = len(rows)
        self.producers = <LastOfProducer*> calloc(max(self.producer_count, 1), sizeof(LastOfProducer))
        self.plans = <Plan*> calloc(PLANS, sizeof(Plan))
        if self.producers == NULL or self.plans == NULL:
            raise MemoryError
        for index in range(self.producer_count):
            row = rows[index]
            self.producers[index].producer_id = row[0]
            self.producers[index].epoch = row[1]
            self.producers[index].last_data_offset = row[2]
        self.shrink()

    def __dealloc__(self):
        free(self.producers)
        free(self.plans)
        free(self.fates)

    @property
    def key_digest(self) -> int:
        """Return the digest of the keys that stay."""
        return number_in(self.digest)

    @property
    def dropped(self) -> list[tuple[int, int]]:
        """Return how many records and bytes were dropped, by reason."""
        return [(self.drops[reason].records, self.drops[reason].bytes) for reason in range(REASONS)]

    def copy(self, object chunk: Buffer, Py_ssize_t position=0) -> int:
        """Copy the rest of a chunk's whole batches; see `reference.compaction.RecordFilter.copy`."""
        cdef Py_buffer view
        take_rest(chunk, &view, position)
        try:
            self.reserve_fates(view.len - position)
            with nogil:
                while True:
                    position = self.plan(<Octets> view.buf, position, view.len, False)
                    self.emit(<Octets> view.buf, False)
                    if self.status != FULL:
                        break
        finally:
            PyBuffer_Release(&view)
        return position

    def copy_opened(self, object batch: Buffer, object opened: Buffer) -> bytearray | None:
        """Copy the rest of an opened batch; see `reference.compaction.RecordFilter.copy_opened`."""
        cdef Py_buffer view
        cdef bint is_written
        cdef Py_ssize_t size = self.size
        cdef Py_ssize_t room = self.room
        cdef bytearray before = self.buffer
        cdef bytearray rebuilt = bytearray()
        self.use(rebuilt, 0, 0)
        PyObject_GetBuffer(opened, &view, PyBUF_SIMPLE)
        try:
            self.reserve_fates(view.len)
            with nogil:
                self.plan(<Octets> view.buf, 0, view.len, True)
                is_written = self.emit(<Octets> view.buf, True)
        finally:
            PyBuffer_Release(&view)
            PyByteArray_Resize(rebuilt, self.size)
            self.use(before, size, room)
        if len(rebuilt) > HEADER_SIZE:
            return rebuilt
        if is_written:
            self.append(rebuilt or batch)
        return None

    def append(self, object batch: Buffer):
        """Add a batch to the output."""
        cdef Py_buffer view
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            memcpy(self.make_room(view.len), view.buf, view.len)
            self.size += view.len
        finally:
            PyBuffer_Release(&view)

    def written(self) -> memoryview:
        """Return the output since the last `clear`; release it before the next copy."""
        return memoryview(self.buffer)[:self.size]

    def clear(self):
        """Empty the output, and keep its memory."""
        self.size = 0

    def shrink(self):
        """Empty the output, and free the memory that a large batch took."""
        self.use(bytearray(), 0, 0)
        free(self.fates)
        self.fates = NULL
        self.fate_room = 0

    cdef void use(self, bytearray buffer, Py_ssize_t size, Py_ssize_t room):
        """Continue the output in a buffer of which so many bytes are filled."""
        self.buffer = buffer
        self.output = <unsigned char*> PyByteArray_AS_STRING(buffer)
        self.size = size
        self.room = room

    cdef int reserve_fates(self, Py_ssize_t size) except -1:
        """Make room for the fates of all records that so many bytes can have."""
        cdef Py_ssize_t room = size // MIN_RECORD_BYTES + 1
        cdef void* fates
        if room > self.fate_room:
            fates = realloc(self.fates, room)
            if fates == NULL:
                raise MemoryError
            self.fates = <unsigned char*> fates
            self.fate_room = room
        return 0

    cdef unsigned char* make_room(self, Py_ssize_t needed) except NULL nogil:
        """Return the address where the output continues, with room for so many bytes."""
        if self.size + needed > self.room:
            with gil:
                PyByteArray_Resize(self.buffer, max(self.size + needed, 2 * self.room))
                self.use(self.buffer, self.size, len(self.buffer))
        return self.output + self.size

    # Deciding.

    cdef Py_ssize_t plan(self, Octets data, Py_ssize_t position, Py_ssize_t end, bint is_opened) except -1 nogil:
        """Plan the whole batches of a chunk; return their end, and set the status to the reason."""
        cdef Header header
        cdef long long size
        cdef bint is_discardable, is_expired, is_closed
        cdef Py_ssize_t fate = 0
        cdef Mode mode
        cdef Plan* plan
        self.status = WANTS_MORE
        self.plan_count = self.waiting = 0
        while True:
            size = find_batch(data + position, end - position, is_opened, self.last_offset, &header)
            if not is_whole(size, end - position, &self.status, &self.needed):
                break
            if self.plan_count == PLANS:
                self.status = FULL
                break
            is_closed = header.attributes & CODEC_MASK and not is_opened
            if is_closed and header.attributes & CONTROL:
                self.status = IS_CLOSED
                break
            is_discardable = self.transactions.is_discardable(data + position, &header)
            is_expired = has_expired(&header, self.now)
            if header.attributes & CONTROL:
                mode = mode_of_control(&header, is_discardable, is_expired)
                if mode == DROP:
                    self.note_dropped(BY_MARKER, header.count, size - HEADER_SIZE)
                    self.horizons_reached += header.count
            else:
                mode = mode_of_data(&header, is_discardable, self.latest)
                if is_discardable:
                    self.note_dropped(BY_ABORTED, header.count, size - HEADER_SIZE)
                elif mode == SOME and is_closed:
                    self.status = IS_CLOSED
                    break
            if mode == SOME and not self.judge(data + position, size, &header, is_expired, fate):
                self.status = BAD_RECORD
                break
            if mode == STAMP and records_end(data + position, size, header.count) != size:
                self.status = BAD_RECORD
                break
            if mode >= STAMP and size + RECORD_GROWTH * header.count > INT32_MAX:
                self.status = TOO_LARGE
                break
            plan = &self.plans[self.plan_count]
            self.plan_count += 1
            plan.position = position
            plan.first_fate = fate
            plan.mode = mode
            if mode == SOME:
                fate += header.count
            self.records_read += header.count
            self.batches_read += 1
            self.last_offset = header.base_offset + header.last_offset_delta
            position += size
        self.judge_waiting(self.waiting)
        return position

    cdef bint judge(self, Octets batch, Py_ssize_t end, Header* header, bint is_expired, Py_ssize_t place) noexcept nogil:
        """Decide about the records of a batch; return whether the whole batch could be read.

        Records with a key that the map covers wait until a window is full.
        """
        cdef Py_ssize_t position = HEADER_SIZE
        cdef Py_ssize_t start
        cdef Digest secret = self.offsets.secret
        cdef Slot* table = self.offsets.table
        cdef long long count = self.offsets.count
        cdef long long latest = self.latest
        cdef long long left = header.count
        cdef long long offset
        cdef JudgedRecord* judged
        cdef int waiting = self.waiting
        cdef bint is_whole = False
        cdef Fate fate
        cdef Record record
        while left > 0:
            left -= 1
            start = position
            if read_front(batch, position, end, &record) < 0:
                break
            if record.offset_delta < 0 or record.offset_delta > header.last_offset_delta:
                break
            position = record.stop
            offset = header.base_offset + record.offset_delta
            fate = fate_of_record(&record, offset, latest, is_expired)
            if offset > latest:
                self.fates[place] = fate
            elif fate == NO_KEY:
                self.fates[place] = fate
                self.note_dropped(BY_NULL_KEY, 1, position - start)
            else:
                judged = &self.window[waiting]
                sip_hash(batch + record.key, record.key_size, &secret, &judged.key)
                judged.bytes_of_key = batch + record.key
                judged.key_size = record.key_size
                judged.offset = offset
                judged.size = position - start
                judged.place = place
                judged.fate = fate
                fetch(home_of(table, count, &judged.key))
                waiting += 1
                if waiting == WINDOW:
                    self.judge_waiting(waiting)
                    waiting = 0
            place += 1
        else:
            is_whole = position == end
        self.waiting = waiting
        return is_whole

    cdef void judge_waiting(self, int count) noexcept nogil:
        """Decide about a window of records, whose slots have been fetched."""
        cdef int index
        cdef JudgedRecord* judged
        for index in range(count):
            judged = &self.window[index]
            if is_superseded(judged.offset, self.offsets.find(&judged.key)):
                judged.fate = SUPERSEDED
                self.note_dropped(BY_SUPERSEDED, 1, judged.size)
            elif judged.fate == EXPIRED:
                self.note_dropped(BY_TOMBSTONE, 1, judged.size)
                self.horizons_reached += 1
            else:
                add_key(&self.digest, judged.bytes_of_key, judged.key_size)
            self.fates[judged.place] = judged.fate

    cdef inline void note_dropped(self, int reason, long long records, long long size) noexcept nogil:
        self.drops[reason].records += records
        self.drops[reason].bytes += size

    cdef bint keeps_header(self, Header* header) noexcept nogil:
        cdef long long last_offset = header.base_offset + header.last_offset_delta
        return last_offset + 1 == self.high_watermark or self.is_last_of_producer(header, last_offset)

    cdef bint is_last_of_producer(self, Header* header, long long last_offset) noexcept nogil:
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.producer_count
        cdef Py_ssize_t middle
        cdef LastOfProducer* last
        while low < high:
            middle = (low + high) // 2
            if self.producers[middle].producer_id < header.producer_id:
                low = middle + 1
            else:
                high = middle
        last = &self.producers[low]
        if low == self.producer_count or last.producer_id != header.producer_id:
            return False
        if last.last_data_offset >= 0:
            return last.last_data_offset == last_offset
        return header.attributes & CONTROL and header.producer_epoch == last.epoch

    # Writing.

    cdef int emit(self, Octets data, bint is_opened) except -1 nogil:
        """Carry out the plans; return whether anything of the last batch stays.

        For an opened batch that stays unchanged, nothing is written here.
        """
        cdef Header header
        cdef Octets batch
        cdef Plan* plan
        cdef Py_ssize_t index, size
        cdef long long kept, tombstones, position
        cdef bint is_stamped
        cdef bint is_written = False
        for index in range(self.plan_count):
            plan = &self.plans[index]
            batch = data + plan.position
            header = read_header(batch)
            size = header.length + LOG_OVERHEAD
            kept = header.count if plan.mode != DROP else 0
            tombstones = 0
            if plan.mode == SOME:
                kept = 0
                for position in range(plan.first_fate, plan.first_fate + header.count):
                    kept += self.fates[position] <= KEEP_TOMBSTONE
                    tombstones += self.fates[position] == KEEP_TOMBSTONE
            is_written = kept > 0 or self.keeps_header(&header)
            if not is_written:
                continue
            self.batches_written += 1
            self.records_written += kept
            is_stamped = plan.mode == STAMP or (
                tombstones > 0 and not header.attributes & DELETE_HORIZON
            )
            if kept == 0:
                self.batches_emptied += header.count > 0
                self.write_emptied(header)
                continue
            if kept == header.count and not is_stamped:
                if not is_opened:
                    memcpy(self.make_room(size), batch, size)
                    self.size += size
            else:
                self.batches_rebuilt += 1
                self.horizons_set += is_stamped
                self.write_rebuilt(batch, &header, plan, is_stamped, kept, is_opened)
            if header.attributes & DELETE_HORIZON:
                self.next_horizon = min(self.next_horizon, header.base_timestamp)
        return is_written

    cdef int write_emptied(self, Header header) except -1 nogil:
        """Write only the header of a batch: no record of it stays."""
        cdef unsigned char* output = self.make_room(HEADER_SIZE)
        header.length = MIN_LENGTH
        header.attributes &= LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
        header.base_timestamp = NO_TIMESTAMP
        header.count = 0
        write_header(output, header)
        write_int32(output, CRC_POSITION, batch_checksum(output, MIN_LENGTH))
        self.size += HEADER_SIZE
        return 0

    cdef int write_rebuilt(self, Octets batch, Header* header, Plan* plan, bint is_stamped, long long kept, bint is_opened) except -1 nogil:
        """Write a batch with the records that stay, and update its header."""
        cdef Py_ssize_t end = header.length + LOG_OVERHEAD
        cdef unsigned char* output = self.make_room(end + RECORD_GROWTH * kept)
        cdef unsigned char* fates = self.fates + plan.first_fate
        cdef Py_ssize_t at = HEADER_SIZE
        cdef Py_ssize_t stop = HEADER_SIZE
        cdef Py_ssize_t start, body, tail
        cdef long long old_base = header.base_timestamp
        cdef long long largest = NO_TIMESTAMP
        cdef long long index, size, delta, timestamp, new_delta
        cdef bint is_based = header.attributes & DELETE_HORIZON
        if is_stamped:
            header.base_timestamp = wrapped_sum(self.now, self.retention)
            header.attributes |= DELETE_HORIZON
            is_based = True
        for index in range(header.count):
            start = stop
            size, body = read_varint(batch, start, end)
            stop = body + size
            if plan.mode == SOME and fates[index] > KEEP_TOMBSTONE:
                continue
            delta, tail = read_varlong(batch, body + 1, stop)
            timestamp = header.max_timestamp
            if not header.attributes & LOG_APPEND_TIME:
                timestamp = wrapped_sum(old_base, delta)
            if not is_based:
                header.base_timestamp = timestamp
                is_based = True
            largest = max(largest, timestamp)
            new_delta = wrapped_difference(timestamp, header.base_timestamp)
            if new_delta != delta:
                at = write_zigzag(output, at, 1 + zigzag_size(new_delta) + stop - tail)
                output[at] = batch[body]
                at = write_zigzag(output, at + 1, new_delta)
                start = tail
            memcpy(output + at, batch + start, stop - start)
            at += stop - start
        if not header.attributes & LOG_APPEND_TIME:
            header.max_timestamp = largest
        header.length = at - LOG_OVERHEAD
        header.count = kept
        write_header(output, header[0])
        if is_opened:
            write_int32(output, CRC_POSITION, header.crc)  # its own CRC follows at its compression
        else:
            write_int32(output, CRC_POSITION, batch_checksum(output, header.length))
        self.size += at
        return 0


cdef Py_ssize_t records_end(Octets batch, Py_ssize_t end, long long count) noexcept nogil:
    """Return where so many records end, or -1 if a record does not parse."""
    cdef Py_ssize_t position = HEADER_SIZE
    cdef Record record
    while count > 0:
        count -= 1
        if read_front(batch, position, end, &record) < 0:
            return -1
        position = record.stop
    return position


cdef inline long long wrapped_sum(long long a, long long b) noexcept nogil:
    return <long long> (<unsigned long long> a + <unsigned long long> b)


cdef inline long long wrapped_difference(long long a, long long b) noexcept nogil:
    return <long long> (<unsigned long long> a - <unsigned long long> b)
