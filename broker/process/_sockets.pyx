"""The compiled part of the network's seam: a turn receives and sends with these C functions.

``route.through`` redirects these calls to an object: its methods ``receive_into(socket, memory)``
and ``send(socket, memory, flags)`` get the number of a socket, and memory that is valid during the
call. The methods return the number of bytes received or sent, 0 at the end of the stream, and raise
OSError. A simulator sets ``through`` before it creates a broker. In a real broker it is always
None, and the calls are recv and send.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EIO, errno

cdef extern from "<sys/socket.h>" nogil:
    enum:
        MSG_NOSIGNAL

    ssize_t recv(int socket, void* data, size_t size, int flags)
    ssize_t send(int socket, const void* data, size_t size, int flags)

cdef extern from "<sys/ioctl.h>":
    enum:
        SIZE_ARRIVED "FIONREAD"

FIONREAD = SIZE_ARRIVED  # type: Final[int]
"""Asks how many bytes have come; `termios` has it, too, but is loaded from a file."""


cdef bint _leads = False


cdef class Route:
    """The target of the socket calls of compiled code: an object, or None for the C functions."""

    cdef object _through

    @property
    def through(self) -> Any:
        """The object, None without one."""
        return self._through

    @through.setter
    def through(self, value: Any):
        global _leads
        self._through = value
        _leads = value is not None


cdef Route _route = Route()
route = _route  # type: Final[Route]


# For sockets that do not block; an error is a negative number, so EAGAIN is no exception.
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
