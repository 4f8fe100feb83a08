"""The context of a request for its handler: its version, its client and the broker's services."""

cimport cython

from siltstone.config.listeners import AUTO
from siltstone.protocol.names import CLUSTER_NAME


@cython.final
cdef class Caller:
    """The client of a connection: its address, its listener, its name and its rights.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``rights`` are None if everybody may do everything.
    """

    def __init__(self, services, listener, peer):
        self.listener = listener
        self.peer = peer
        self.services = services


@cython.final
cdef class RequestContext:
    """One request: its version, its client, its listener.

    ``client_id`` is None when the client sent none. ``peer`` is its address, as log lines print it.
    ``stats`` are the figures of all APIs. ``connection`` is None in tests. ``rights`` are None if
    everybody may do everything. ``mutations`` are None if no quota counts them. ``may_wait`` says
    that the request's bytes stay valid until the end of the round, and that the answer may wait for
    it (`LoopRound`).
    """

    def __init__(
        self, *, services, api_key, version, correlation_id, client_id, listener, peer, stats,
        connection=None,
    ):
        self.connection = connection
        self.services = services
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.peer = peer
        self.stats = stats

    @property
    def advertised(self):
        """Host and port that are advertised for the listener that received the request."""
        host, port = told = self.services.advertised[self.listener]
        if host == AUTO and self.connection is not None:
            return self.connection.reached, port
        return told

    cpdef bint may(self, object operation, object resource, object name=CLUSTER_NAME) except *:
        """Tell whether the client may do something; if not, the audit log says so."""
        return self.rights is None or self.rights.may(operation, resource, name)

    cpdef bint sees(self, object operation, object resource, object name=CLUSTER_NAME) except *:
        """Tell the same as `may` without an audit line, for what the answer only leaves out."""
        return self.rights is None or self.rights.sees(operation, resource, name)

    def take_partitions(self, count):
        """Count the partitions that this request creates or deletes next, if a quota limits them.

        Raises:
            ThrottlingQuotaExceeded: The client has exceeded its quota.
        """
        if self.mutations is not None:
            self.mutations.take(count)


cdef class Unwritten:
    """A request whose batches wait to be written; its response waits for them.

    A handler may return it if ``context.may_wait`` is set. When the batches are written, or have
    failed, the `Gate` of the request calls `answer`.
    """

    def __init__(self, context):
        self.context = context

    cpdef answer(self):
        """Return the response; None if the client wants none.

        Raises:
            ProtocolError: acks=0 and a batch failed: the connection must close.
        """
        raise NotImplementedError
