# C types of _read_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.protocol.core._format cimport field_of, inside, number_of, read_int32, read_int64, row_of
from siltstone.protocol.core._records cimport find_batch, find_end
from siltstone.storage.appending._append_kernels cimport LogEnd

ctypedef const unsigned char* Octets

cdef enum:
    HINTS = 17

@cython.final
cdef class LogReader:
    cdef LogEnd _end
    cdef list _hints

    @cython.locals(end=LogEnd, view=tuple, end_offset="long long")
    cpdef read(self, object log, long long offset, long long max_bytes, long long upto, bint at_least_one)

    @cython.locals(end=LogEnd)
    cpdef available_bytes(self, object log, long long offset, long long upto)

    @cython.locals(end_offset="long long", segments=tuple, end_position="long long", hints=list, hint=tuple, is_hinted=bint, position="long long", limit="long long", next_offset="long long")
    cdef object _read(self, tuple view, long long offset, long long max_bytes, long long upto, bint at_least_one)

@cython.locals(segments=tuple)
cdef object _count_bytes(list hints, tuple view, long long offset, long long upto)

cdef object _search(list hints, tuple view, long long offset)

@cython.locals(chunk=bytes, found=Py_ssize_t, at=Py_ssize_t, size="long long")
cpdef long long find_position(int fd, long long position, long long end, long long offset) except? -1

@cython.locals(fd=int, chunk=bytes, bound="long long", start="long long", target="long long", at=Py_ssize_t, size="long long")
cpdef tuple find_cut(object segment, long long position, long long max_bytes, long long limit, bint at_least_one)

@cython.locals(octets=Octets, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, value="long long")
cpdef Py_ssize_t count_up_to(object data, Py_ssize_t size, long long key, int width, int at) except -1

@cython.locals(octets=Octets, count=Py_ssize_t)
cpdef long long position_before(object data, long long key, int at) except -1

@cython.locals(position="long long")
cdef tuple _cut_at(object segment, long long limit, long long upto)

@cython.locals(segments=tuple)
cdef long long _end_of(tuple view, object segment) except -1

@cython.locals(segments=tuple, index=Py_ssize_t, position="long long")
cdef object _find_place(tuple view, long long offset)

@cython.locals(segments=tuple)
cdef object _next_place(tuple view, object segment)

@cython.locals(segments=tuple, first=Py_ssize_t, last=Py_ssize_t)
cdef object _size_between(tuple view, tuple start, tuple end)

@cython.locals(octets=Octets, length="long long", magic=int)
cdef long long _size_at(bytes chunk, Py_ssize_t at, long long position) except -1

cdef object _base_offset_at(bytes chunk, Py_ssize_t at)

@cython.locals(first=object, delta=object)
cdef object _next_offset_at(bytes chunk, Py_ssize_t at)
