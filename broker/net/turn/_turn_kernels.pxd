# C types of _turn_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.net._dispatch_kernels cimport Gate
from siltstone.protocol.core._records cimport next_frame
from siltstone.protocol.core._format cimport (
    EAGAIN,
    EINTR,
    Target,
    acquire_target,
    inside,
    no_target,
    receive_octets,
    release_target,
    send_octets,
)

cdef class Transport:
    cdef public object unsent, _on_lost
    cdef public int fileno

    @cython.locals(room=Target, socket=int, received=Py_ssize_t)
    cpdef Py_ssize_t receive(self, object buffer, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(socket=int, octets="const unsigned char*", size=Py_ssize_t, sent=Py_ssize_t)
    cpdef send_bytes(self, bytes whole)

cdef class Turn:
    cdef public object _loop, _shared, _frame, _task
    cdef public Transport _channel
    cdef public Gate _gate
    cdef public bytes _tail
    cdef public long long _limit, received
    cdef public Py_ssize_t _held
    cdef public double last_active
    cdef public bint _expects_large, is_closed

    cpdef _on_readable(self)

    @cython.locals(tail=bytes, kept=Py_ssize_t, received=Py_ssize_t)
    cpdef _receive(self)

    @cython.locals(answers=list, position=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, end=Py_ssize_t, is_more=bint)
    cpdef _serve(self, Py_ssize_t filled)

    cpdef _send_joined(self, list answers)
    cpdef _send(self, object answer)
