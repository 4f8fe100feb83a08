# C types of _member_kernels.py; the algorithm stands there alone.
cimport cython
from siltstone.broker.coordination._coordinator_kernels cimport Journal
from siltstone.protocol.core._format cimport field_of

cdef object _COMPLETING, _DEAD, _EMPTY, _PREPARING, _STABLE

@cython.final
cdef class Timer:
    cdef public object deadline, _queued, _action
    cdef public Timers _timers

    cpdef start(self, double after_ms)

cdef class Timers:
    cdef public object on_earlier, _clock
    cdef public list heap
    cdef public long long running_count, _pushed

    cpdef double now_ms(self) except? -1
    cpdef push(self, object deadline, Timer timer)

cdef class LivingMember:
    cdef public long long session_timeout_ms
    cdef public Timer timer

    cpdef start_session(self)

cdef class MemberTable:
    cdef public dict by_id, static

    cpdef LivingMember get(self, str member_id, object instance_id)

cdef class LivingGroup:
    cdef public object state
    cdef public long long generation
    cdef public MemberTable members

    @cython.locals(member=LivingMember)
    cpdef heartbeat(self, str member_id, object instance_id, long long generation)

    @cython.locals(member=LivingMember)
    cpdef touch(self, str member_id)

    cpdef judge_commit(self, str member_id, object instance_id, long long generation, bint is_transactional)

    cpdef _check_alive(self)

cdef class GroupTable:
    cdef public dict groups
    cdef public Journal journal
    cdef public object offsets, _make_classic

    cpdef check(self, str group_id)
    cpdef find(self, str group_id)
    cpdef keep(self, object group)
    cpdef heartbeat(self, object request)
