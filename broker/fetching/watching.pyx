"""Logs notify fetch sessions, and fetches that wait for data, of their changes.

A `Watch` is one partition. It is among the watchers of its log (`Log.watchers`), and the log calls
it at every change. So neither an idle session nor a waiting fetch has to look at its partitions one
by one.
"""

from typing import TYPE_CHECKING

cimport cython

from siltstone.protocol.errors import KafkaError

if TYPE_CHECKING:
    import asyncio

    from siltstone.protocol.messages.fetch import FetchPartition
    from siltstone.protocol.names import TopicKey
    from siltstone.storage.log.log import Log

READ_COMMITTED = 1
"""As the isolation level in a Fetch request."""


cdef class Watch:
    """One watched partition: its requested fields and its log.

    ``available`` is the number of bytes that a waiting fetch has counted here, otherwise 0.
    """

    def __init__(self, WatchGroup group not None, key: TopicKey, wanted: FetchPartition):
        self.group = group
        self.key = key
        self.wanted = wanted

    cpdef stand_on(self, object log: Log):
        """Begin to watch a log: it calls this object at changes."""
        if self.log is not log:
            self.leave()
            self.log = log
            log.watchers[self] = None

    cpdef leave(self):
        """Stop watching the log; safe to call again."""
        cdef dict watchers
        log = self.log
        if log is not None:
            self.log = None
            watchers = log.watchers
            del watchers[self]
            if not watchers:
                watchers.clear()  # an emptied dict keeps its memory

    def log_changed(self):
        """Mark this partition as changed for the group."""
        self.group.note_change(self)

    def log_gone(self):
        """Mark this partition as changed for the group; if a fetch waits, resume it at once."""
        self.leave()
        self.group.changed[self] = None
        self.group.release()


@cython.final
cdef class WatchGroup:
    """The partitions of a session, or of one fetch that waits, and those that have ``changed``.

    Every partition is in ``changed``, or watches its log, or both. A changed partition need not
    watch its log before it is read, unless a fetch of the group waits: ``parked``.
    """

    def __init__(self):
        self.changed = {}

    cdef note_change(self, Watch watch):
        """Note a partition whose log has changed."""
        self.changed[watch] = None
        if self.parked is None:
            watch.leave()
        else:
            self.parked.count(watch)

    cpdef release(self):
        """Resume the waiting fetch, if there is one."""
        if self.parked is not None:
            self.parked.release()

    def leave(self, Py_ssize_t count):
        """Forget so many changed partitions, and stop watching their logs.

        Without a session all partitions are changed ones.
        """
        cdef Watch watch
        while count > 0 and self.changed:
            watch, _ = self.changed.popitem()
            watch.leave()
            count -= 1


@cython.final
cdef class Parked:
    """A waiting fetch: it resumes when enough bytes have come, or when it is released."""

    def __init__(self, future: asyncio.Future[None], min_bytes: int, isolation_level: int):
        self.future = future
        self._missing = min_bytes
        self._is_committed = isolation_level == READ_COMMITTED

    cpdef count(self, Watch watch):
        """Count the bytes of one partition again, and resume if there are enough."""
        cdef long long available = 0, offset, upto
        log = watch.log
        wanted = watch.wanted
        if log is None:
            self.release()
            return
        end = log.end
        upto = end.last_stable_offset if self._is_committed else end.log_end_offset
        offset = wanted.fetch_offset
        if offset < upto:
            try:
                available = min(log.available_bytes(offset, upto), wanted.partition_max_bytes)
            except KafkaError:  # the fetch reports it; the append that calls this goes on
                self.release()
                return
        self._missing -= available - watch.available
        watch.available = available
        if self._missing <= 0:
            self.release()

    cpdef release(self):
        """Resume the request; safe to call again."""
        if not self.future.done():
            self.future.set_result(None)
