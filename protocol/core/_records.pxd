# What other compiled modules call without a detour through Python; see _records.pyx.

cdef struct Plain:  # the numbers of a common batch; all 0 for any other
    long long count
    long long last_offset_delta
    long long attributes
    long long max_timestamp
    long long producer_id
    long long producer_epoch
    long long base_sequence

cpdef Py_ssize_t next_frame(object buffer, Py_ssize_t position, Py_ssize_t filled, long long limit) except -1
cpdef Plain take_plain(
    object buffer, long long low, long long high, bint keys_required, int flags, int codecs
) except *
cpdef Py_ssize_t find_batch(object buffer, Py_ssize_t start, Py_ssize_t end, long long offset) except? -1
cpdef Py_ssize_t find_end(object buffer, Py_ssize_t start, Py_ssize_t end) except -1
cpdef bytearray pack_rows(object rows, long long timestamp, long long producer_id, long long producer_epoch)
