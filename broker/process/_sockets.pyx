"""The compiled part of the network's seam: what a turn receives and sends, by a call of C.

``route.through`` leads these calls to an object: its ``receive_into(socket, memory)`` and
``send(socket, memory, flags)`` get the number of a socket and memory that is theirs for the call.
They return how many bytes came or went, 0 at the end of the stream, and raise OSError. A simulator
sets it before it makes a broker. While it is None, which it always is in a broker, they are recv
and send.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EIO, errno

cdef extern from "<sys/socket.h>" nogil:
    enum:
        MSG_NOSIGNAL

    ssize_t recv(int socket, void* data, size_t size, int flags)
    ssize_t send(int socket, const void* data, size_t size, int flags)


cdef bint _leads = False


cdef class Route:
    """The way that the calls of compiled code take: through an object, or straight to C."""

    cdef object _through

    @property
    def through(self):
        """The object, None without one."""
        return self._through

    @through.setter
    def through(self, value):
        global _leads
        self._through = value
        _leads = value is not None


cdef Route _route = Route()
route = _route


# Of a socket that does not block; the negative error number, so that "not now" is no exception.
cdef Py_ssize_t receive_octets(int socket, unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef ssize_t received
    if _leads:
        return _receive(socket, data + start, end - start)
    received = recv(socket, data + start, <size_t>(end - start), 0)
    return -errno if received < 0 else received


cdef Py_ssize_t send_octets(int socket, const unsigned char* data, Py_ssize_t size, int flags) noexcept nogil:
    cdef ssize_t sent
    if _leads:
        return _send(socket, data, size, flags)
    sent = send(socket, data, <size_t>size, MSG_NOSIGNAL | flags)
    return -errno if sent < 0 else sent


cdef Py_ssize_t _receive(int socket, unsigned char* data, Py_ssize_t size) noexcept with gil:
    memory = PyMemoryView_FromMemory(<char*>data, size, PyBUF_WRITE)
    try:
        return _route._through.receive_into(socket, memory)
    except OSError as error:
        return -(error.errno or EIO)
    finally:
        memory.release()


cdef Py_ssize_t _send(int socket, const unsigned char* data, Py_ssize_t size, int flags) noexcept with gil:
    memory = PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ)
    try:
        return _route._through.send(socket, memory, flags)
    except OSError as error:
        return -(error.errno or EIO)
    finally:
        memory.release()
