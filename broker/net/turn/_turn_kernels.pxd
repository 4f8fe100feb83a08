# C types of _turn_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.process._sockets cimport receive_octets, send_octets
from siltstone.broker.context cimport Unwritten
from siltstone.broker.net.gate cimport Gate, encode
from siltstone.protocol.core._records cimport next_frame
from siltstone.storage.log.end cimport Appends
from siltstone.protocol.core._format cimport (
    EAGAIN,
    EINTR,
    MSG_MORE,
    Region,
    Target,
    acquire,
    acquire_target,
    copy,
    inside,
    no_region,
    no_target,
    release,
    release_target,
)
from siltstone.storage.files._disk cimport read_resident

cdef class Transport:
    cdef public object unsent, _on_lost
    cdef public int fileno

    @cython.locals(room=Target, socket=int, received=Py_ssize_t)
    cpdef Py_ssize_t receive(self, object buffer, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(socket=int, octets="const unsigned char*", size=Py_ssize_t, sent=Py_ssize_t)
    cpdef send_bytes(self, bytes whole)

    @cython.locals(room=Target, filled=Py_ssize_t, count=Py_ssize_t, got=Py_ssize_t, sent=Py_ssize_t)
    cpdef Py_ssize_t send_joined(self) except? -1

    @cython.locals(room=Target, got=Py_ssize_t)
    cpdef bint is_in_memory(self, int file, long long position) except -1

    @cython.locals(size=Py_ssize_t)
    cpdef drop(self, Py_ssize_t sent)

@cython.locals(region=Region, filled=Py_ssize_t, count=Py_ssize_t, size=Py_ssize_t, got=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t, Py_ssize_t) join(object parts, Target room) except *

@cython.locals(region=Region, sent=Py_ssize_t)
cdef Py_ssize_t _send_large(int socket, object part)

cdef _check_read(Py_ssize_t got, long long position)

cdef class Turn

@cython.final
cdef class LoopRound:
    cdef readonly Appends appends
    cdef readonly object shared
    cdef readonly Py_ssize_t kept
    cdef object _loop
    cdef list _turns
    cdef Py_ssize_t _alone
    cdef bint _is_due

    cdef bint is_open(self) except -1
    cdef int keep(self, Py_ssize_t filled) except -1
    cdef int add(self, Turn turn) except -1

    @cython.locals(turns=list)
    cpdef end(self)

    @cython.locals(number=Py_ssize_t, turn=Turn)
    cpdef _answer(self, list turns)

cdef bint _has_rest(list answers) except *
cdef bint _is_produce(object frames, Py_ssize_t start, Py_ssize_t end) except *

cdef class Turn:
    cdef public object _loop, _shared, _frame, _task
    cdef public Transport _channel
    cdef public Gate _gate
    cdef Appends _appends
    cdef readonly LoopRound _round
    cdef readonly list _owed
    cdef public bytes _tail
    cdef public long long _limit, received
    cdef public Py_ssize_t _held
    cdef public double last_active
    cdef public bint _expects_large, is_closed

    cpdef on_readable(self)

    cdef object _turn(self)

    @cython.locals(tail=bytes, start=Py_ssize_t, kept=Py_ssize_t, received=Py_ssize_t)
    cpdef _receive(self)

    @cython.locals(answers=list, position=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, is_open=bint, is_more=bint)
    cpdef _serve(self, Py_ssize_t start, Py_ssize_t filled)

    @cython.locals(position=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, waits=bint, may_wait=bint, appends=Appends)
    cdef (Py_ssize_t, Py_ssize_t, Py_ssize_t) _dispatch_all(self, Py_ssize_t start, Py_ssize_t filled, list answers, bint is_open) except *

    cpdef owe(self, list answers)

    @cython.locals(owed=list)
    cpdef answer(self)

    @cython.locals(place=Py_ssize_t)
    cdef int _settle(self, list answers) except -1

    cpdef _send_joined(self, list answers)
    cpdef _send(self, object answer)
