"""The lock of a log. Every append takes it, so compiled code takes it without a call of Python.

It is a part of the seam of threads. A free lock is taken at once, without a call of `wait_for`.
A simulator replaces `wait_for` of this module by a function that lets other threads run until
`LogLock.take_now` returns true.
"""

cimport cython
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    WAIT_LOCK,
)


@cython.final
cdef class LogLock:
    """A lock that one thread has at a time: use ``with``, or `take` and `drop` (not reentrant)."""

    def __cinit__(self):
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self._lock != NULL:
            PyThread_free_lock(self._lock)

    def __enter__(self):
        self.take()

    def __exit__(self, *_: object):
        self.drop()

    def take_now(self) -> bool:
        """Acquire the lock if it is free; tell whether it was."""
        return PyThread_acquire_lock(self._lock, NOWAIT_LOCK) == 1

    cpdef int take(self) except -1:
        """Acquire the lock; wait for the thread that has it."""
        if PyThread_acquire_lock(self._lock, NOWAIT_LOCK) != 1:
            wait_for(self)
        return 0

    cpdef int drop(self) except -1:
        """Release the lock."""
        PyThread_release_lock(self._lock)
        return 0


def wait_for(LogLock lock):
    """Acquire a lock that another thread has: wait in the kernel, without the GIL."""
    with nogil:
        PyThread_acquire_lock(lock._lock, WAIT_LOCK)
