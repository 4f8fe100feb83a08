# C types of _segment_kernels.py; the algorithm stands there alone.
cimport cython
from protocol.core._format cimport (
    BASE_OFFSET,
    BATCHES,
    ENTRIES,
    ENTRY_NUMBERS,
    FIRST_TIMESTAMP,
    FULL,
    INDEXED,
    INT64_MAX,
    INTERVAL,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    NEEDED,
    NOTABLE,
    Numbers,
    OFFSET_BACKWARDS,
    OFFSET_OVERFLOW,
    POSITION,
    Region,
    SHORT_LENGTH,
    STATUS,
    TABLE,
    TABLE_PRODUCERS,
    WANTS_MORE,
    WRONG_CRC,
    WRONG_MAGIC,
    acquire,
    acquire_numbers,
    checksum,
    no_numbers,
    no_region,
    prepare,
    read_int16,
    read_int32,
    read_int64,
    read_uint32,
    release,
    release_numbers,
    sum_reaches,
)

ctypedef const unsigned char* Octets
ctypedef long long* Int64s

@cython.locals(region=Region, numbers=Numbers, found=Numbers, marked=Numbers, data=Octets, slots=Int64s, rows=Int64s, marks=Int64s, size=Py_ssize_t, most_entries=Py_ssize_t, most_marks=Py_ssize_t)
cpdef scan_batches(object buffer, object state, object entries, object notable)

@cython.locals(region=Region, data=Octets, position=Py_ssize_t, length=Py_ssize_t)
cpdef Py_ssize_t find_batch(object buffer, Py_ssize_t start, Py_ssize_t end, long long offset) except? -1

@cython.locals(region=Region, data=Octets, position=Py_ssize_t, length=Py_ssize_t)
cpdef Py_ssize_t find_end(object buffer, Py_ssize_t start, Py_ssize_t end) except? -1

@cython.locals(origin="long long", position=Py_ssize_t, row=Py_ssize_t, marks=Py_ssize_t, status="long long", length=Py_ssize_t, first="long long", delta="long long", last="long long", timestamp="long long", epoch="long long")
cdef void _scan(Octets data, Py_ssize_t size, Int64s state, Int64s entries, Py_ssize_t most_entries, Int64s notable, Py_ssize_t most_notable) noexcept nogil

@cython.locals(slot=Py_ssize_t, kept=Py_ssize_t, mark=Py_ssize_t, position="long long", seen="long long", producer_id="long long", place=Py_ssize_t, left=Py_ssize_t)
cdef Py_ssize_t _thin(Octets data, Int64s state, Int64s notable, Py_ssize_t marks, long long origin) noexcept nogil
