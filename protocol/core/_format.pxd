# The C side of _kernels.py; _portable.py has the same names for uncompiled runs.
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN

cdef extern from "_format.h" nogil:
    ctypedef struct Region "Py_buffer":
        const unsigned char* buf
        Py_ssize_t len

    ctypedef struct Numbers "Py_buffer":
        long long* buf
        Py_ssize_t len

    ctypedef struct Target "Py_buffer":
        unsigned char* buf
        Py_ssize_t len

    void prepare()
    Region no_region "nothing" ()
    Numbers no_numbers "nothing" ()
    Target no_target "nothing" ()
    unsigned int checksum(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    unsigned int checksum_software(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    unsigned int continue_checksum(unsigned int value, const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    void copy(unsigned char* output, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    long long read_int64(const unsigned char* data, Py_ssize_t position)
    long long read_int32(const unsigned char* data, Py_ssize_t position)
    bint sum_reaches(long long a, long long b, long long c)
    short read_int16(const unsigned char* data, Py_ssize_t position)
    unsigned int read_uint32(const unsigned char* data, Py_ssize_t position)
    void write_int64(unsigned char* output, Py_ssize_t at, long long number)
    void write_int32(unsigned char* output, Py_ssize_t at, long long number)
    void write_int16(unsigned char* output, Py_ssize_t at, long long number)

cdef extern from "_format.h":
    int acquire(object buffer, Region region) except -1
    int acquire_numbers "acquire_writable" (object buffer, Numbers numbers) except -1
    int acquire_target "acquire_writable" (object buffer, Target target) except -1
    void release(Region region)
    void release_numbers "release" (Numbers numbers)
    void release_target "release" (Target target)
    object text_of(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    object blank(Py_ssize_t size)
    unsigned char* inside(object octets)
    object sealed(object octets)
    Py_ssize_t put_octets(unsigned char* output, Py_ssize_t at, bytes octets)
    object field_of(object row, Py_ssize_t column)
    object row_of(object type, tuple fields)
    long long number_of(object row, Py_ssize_t column) except? -1
    object octets_of(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)

# The numbers of verdicts.py
cdef enum:
    BAD_CRC = -1
    BAD_LENGTH = -2
    BAD_NUMBER = -3
    BAD_FIELD = -4
    BAD_HEADERS = -5
    BAD_BODY = -6
    RECORDS_MISSING = -7
    BYTES_LEFT = -8
    BAD_TIMESTAMP = -9
    BAD_COUNT = -10
    FINE = 0
    NULL_KEY = 1
    TIMESTAMP_OUTSIDE = 2
    UNEVEN_OFFSETS = 4
    NEEDS_REWRITE = 8

cdef enum:
    WANTS_MORE = 0
    FULL = 1
    SHORT_LENGTH = -1
    WRONG_MAGIC = -2
    WRONG_CRC = -3
    OFFSET_OVERFLOW = -4
    OFFSET_BACKWARDS = -5

cdef enum:
    POSITION
    BASE_OFFSET
    INTERVAL
    INDEXED
    LAST_OFFSET
    MAX_TIMESTAMP
    MAX_TIMESTAMP_OFFSET
    LEADER_EPOCH
    BATCHES
    FIRST_TIMESTAMP
    STATUS
    NEEDED
    ENTRIES
    NOTABLE
    TABLE

cdef enum:
    ENTRY_NUMBERS = 4
    TABLE_PRODUCERS = 256
