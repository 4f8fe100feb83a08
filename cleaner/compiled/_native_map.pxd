# The C side of the cleaner's kernel; _portable.py has the same names for uncompiled runs.
cdef extern from "_native_map.h" nogil:
    void digest_key(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, const long long* numbers, Py_ssize_t seed, long long* digests, Py_ssize_t at)
    void add_digest(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, long long* numbers, Py_ssize_t at)
    long long home_of(long long digest, long long count)
    long long spread(long long number)
    void prefetch(const long long* numbers, long long at)
    long long wrapping_add(long long a, long long b)
    long long wrapping_subtract(long long a, long long b)

include "slots.pxi"  # cleaner/compiled/slots.py, as the build writes it
