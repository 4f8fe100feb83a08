# The C side of _column_kernels.py beside _native.pxd; _portable_columns.py has it uncompiled.
cdef extern from "_native_columns.h" nogil:
    void store_int64(unsigned char* arena, Py_ssize_t start, Py_ssize_t index, long long number)
    void store_int32(unsigned char* arena, Py_ssize_t start, Py_ssize_t index, long long number)
    void store_bit(unsigned char* arena, Py_ssize_t start, Py_ssize_t index, int bit)

# The numbers of column_slots.py
cdef enum:
    WANTS_MORE = 0
    FULL = 1
    SHORT_LENGTH = -1
    WRONG_MAGIC = -2
    WRONG_CRC = -3
    OFFSET_BACKWARDS = -4
    BAD_COUNT = -5
    BAD_RECORD = -6

cdef enum:
    STATUS
    POSITION
    NEEDED
    BATCHES
    RECORDS
    FLAGS
    LAST_OFFSET

cdef enum:
    ROW_POSITION
    ROW_SIZE
    ROW_ORIGIN
    ROW_BASE_OFFSET
    ROW_LAST_OFFSET
    ROW_COUNT
    ROW_ATTRIBUTES
    ROW_MAX_TIMESTAMP
    ROW_PRODUCER_ID
    ROW_NUMBERS

cdef enum:
    START
    END
    TIME_FROM
    TIME_LAST
    TIME_SCALE
    IS_WALKED
    ROWS
    KEY_NULLS
    KEY_BYTES
    VALUE_NULLS
    VALUE_BYTES
    HEADERS
    NAME_BYTES
    HEADER_NULLS
    HEADER_BYTES
    BAD_ROW

cdef enum:
    OFFSET
    TIMESTAMP
    TIMESTAMP_TYPE
    KEY_VALID
    KEY_ENDS
    KEY
    VALUE_VALID
    VALUE_ENDS
    VALUE
    HEADER_ENDS
    NAME_ENDS
    NAME
    HEADER_VALID
    HEADER_VALUE_ENDS
    HEADER_VALUE
    BATCH_POSITION
    BATCH_OFFSET
    PRODUCER_ID
    TOMBSTONE
