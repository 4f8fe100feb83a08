"""The compiled part of the disk's seam: calls that ``os`` lacks, and calls for compiled code.

Compiled code calls C directly. Once `route` has an object with `pread`, `preadv` and `pwrite`, such
as the module `disk` itself, compiled code calls the functions of that object, replaced ones too.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EINTR, EOPNOTSUPP, errno
from posix.types cimport off_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

    int RWF_NOWAIT
    ssize_t preadv2(int file, const iovec* parts, int count, off_t position, int flags)

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int file, void* data, size_t size, off_t position)
    ssize_t pwrite(int file, const void* data, size_t size, off_t position)

cdef extern from "<fcntl.h>" nogil:
    int c_fallocate "fallocate" (int file, int mode, off_t start, off_t size)
    int c_sync_file_range "sync_file_range" (int file, off_t start, off_t size, unsigned int flags)

cdef enum:
    SHORT_BYTES = 16 << 10  # so small a write ends before another thread could get the GIL


cdef class Route:
    """The target of compiled code's calls: an object, or C."""

    cdef public object through  # type: object | None


cdef Route _route = Route()
route = _route  # type: Final[Route]


cdef Py_ssize_t write_at(int file, object buffer, long long position) except -1:
    """Write at a position, and return how many bytes were written.

    Raises:
        OSError: Nothing was written.
    """
    cdef Py_buffer view
    cdef ssize_t written
    if _route.through is not None:
        return _route.through.pwrite(file, buffer, position)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        while True:
            if view.len > SHORT_BYTES:
                with nogil:
                    written = pwrite(file, view.buf, <size_t>view.len, <off_t>position)
            else:
                written = pwrite(file, view.buf, <size_t>view.len, <off_t>position)
            if written >= 0:
                return written
            if errno != EINTR:
                PyErr_SetFromErrno(OSError)
            PyErr_CheckSignals()
    finally:
        PyBuffer_Release(&view)


cdef bytes read_at(int file, Py_ssize_t size, long long position):
    """Return ``size`` bytes of a file at a position, fewer at its end; may wait for the disk.

    If a call returns fewer bytes, another one asks for the rest and shows whether the file ends
    there or the disk fails.

    Raises:
        OSError: The file cannot be read.
    """
    cdef bytes data = _read_once(file, size, position), rest
    while len(data) < size:
        rest = _read_once(file, size - len(data), position + len(data))
        if not rest:
            break
        data += rest
    return data


cdef bytes _read_once(int file, Py_ssize_t size, long long position):
    cdef ssize_t got
    if _route.through is not None:
        return _route.through.pread(file, size, position)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef char* room = PyBytes_AS_STRING(data)
    while True:
        with nogil:
            got = pread(file, room, <size_t>size, <off_t>position)
        if got >= 0:
            return data if got == size else data[:got]
        if errno != EINTR:
            PyErr_SetFromErrno(OSError)
        PyErr_CheckSignals()


cdef Py_ssize_t read_resident(int file, unsigned char* data, Py_ssize_t start, Py_ssize_t end, long long position) except? -1:
    """Read without waiting for the disk; return the number of bytes, or a negative error number.

    If the file ends before all bytes are read, this returns 0. If a page is not in memory, the
    error number is that of EAGAIN, on file systems that support this: tmpfs and some others do not.
    """
    cdef Py_ssize_t done = start, got
    cdef int flags = RWF_NOWAIT
    while True:
        got = _read(file, data + done, end - done, position, flags)
        if got == -EOPNOTSUPP and flags:
            flags = 0  # true for this file alone: others may be on another file system
            continue
        if got <= 0:
            return got
        done += got
        if done == end:
            return end - start
        position += got


cdef Py_ssize_t _read(int file, unsigned char* data, Py_ssize_t size, long long position, int flags) except? -1:
    cdef iovec room
    cdef ssize_t got
    if _route.through is not None:
        try:
            return _route.through.preadv(
                file, [PyMemoryView_FromMemory(<char*>data, size, PyBUF_WRITE)], position, flags
            )
        except OSError as error:
            return -error.errno
    room.iov_base = data
    room.iov_len = <size_t>size
    got = preadv2(file, &room, 1, <off_t>position, flags)
    return -errno if got < 0 else got


def fallocate(int file, int mode, long long start, long long size):
    """Reserve room for a range of an open file; see fallocate(2).

    Raises:
        OSError: There is no room, or the file system cannot reserve any.
    """
    cdef int failed
    with nogil:
        failed = c_fallocate(file, mode, <off_t>start, <off_t>size)
    if failed:
        PyErr_SetFromErrno(OSError)


def sync_file_range(int file, long long start, long long size, unsigned int flags):
    """Let the kernel begin to write a range of an open file; see sync_file_range(2).

    Raises:
        OSError: The file is not on a disk.
    """
    cdef int failed
    with nogil:
        failed = c_sync_file_range(file, <off_t>start, <off_t>size, flags)
    if failed:
        PyErr_SetFromErrno(OSError)
