"""The way past the guards for what a client asks again: compiled by Cython, or plain Python.

The types of C stand in ``_shortcut_kernels.pxd``.
"""

from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.broker.fetching._fetch_kernels import replica_of
    from siltstone.broker.security.gate.named import (
        MAX_NAME,
        MAX_NAMES,
        SESSION,
        SESSION_EPOCH,
        SESSION_ID,
        WHOLE,
        WHOLE_COLUMN,
    )
    from siltstone.protocol.records._portable import (
        acquire,
        field_of,
        no_region,
        number_of,
        read_int16,
        release,
    )
    from siltstone.protocol.records.batch import ATTRIBUTES_POSITION, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.net import _dispatch_kernels as dispatch_kernels


class Granted:
    """What one client has been permitted in requests of one API, by the rules in force."""

    __slots__ = ("topics", "wholes")

    def __init__(self) -> None:
        self.topics: set[str | bytes] = set()
        self.wholes: set[str] = set()


class Shortcut:
    """Serves a request at once if its client has been permitted all that it needs (loop only).

    Whatever has not been permitted goes to ``ask``, the guard: it alone judges, and refuses. Who
    asks it calls `note` for a request that was let pass as it is. A topic is known by what requests
    call it, from version ``first_by_id`` on its id, which no other topic ever has. ``rows`` is the
    column of the topics, -1 if there is none; ``kind`` says what else is needed (``named.py``).

    Invariant: nothing in ``_granted`` is older than the rules in force. A session remembers by
    which `Granted` it was judged, and there is another one after a change of rules.
    """

    __slots__ = ("_ask", "_first_by_id", "_granted", "_handler", "_kind", "_names", "_rows")

    def __init__(
        self,
        handler: "Callable[..., Any]",
        ask: "Callable[..., Any]",
        kind: int,
        rows: int,
        first_by_id: int,
    ) -> None:
        self._handler = handler
        self._ask = ask
        self._kind = kind
        self._rows = rows
        self._first_by_id = first_by_id
        self._granted: dict[tuple[str, str], Granted] = {}
        self._names = 0

    def serve(self, context: "dispatch_kernels.RequestContext", request: Any) -> Any:
        """Have a request served, or judged first."""
        connection = context.connection
        if connection is not None:
            granted = self._granted.get((connection.principal, connection.host))
            if granted is not None and self._has_all(granted, context, request):
                return self._handler(context, request)
        return self._ask(context, request)

    def forget(self) -> None:
        """Have everything judged again: the rules have changed."""
        self._granted = {}
        self._names = 0

    def note(self, context: "dispatch_kernels.RequestContext", request: Any) -> None:
        """Remember that a client was permitted all that a request names."""
        connection = context.connection
        if connection is None:
            return
        sessions = context.rooms.sessions
        if self._kind == SESSION and replica_of(request) >= 0:  # judged by no topic at all
            sessions.judged.pop(field_of(request, SESSION_ID), None)
            return
        if self._names >= MAX_NAMES:
            self.forget()
        client = (connection.principal, connection.host)
        granted = self._granted.get(client)
        if granted is None:
            granted = self._granted[client] = Granted()
            self._names += 1
        if self._rows >= 0:
            self._note_topics(granted, context, request)
        if self._kind == SESSION:
            session_id = field_of(request, SESSION_ID)
            if number_of(request, SESSION_EPOCH) > 0 and session_id in sessions.sessions:
                sessions.judged[session_id] = granted
        elif self._needs_whole(request):
            whole = field_of(request, WHOLE_COLUMN)
            if len(whole) <= MAX_NAME:
                granted.wholes.add(whole)
                self._names += 1

    def _note_topics(
        self, granted: Granted, context: "dispatch_kernels.RequestContext", request: Any
    ) -> None:
        """Remember topics; an id that nobody has was passed over by the guard, and so is here."""
        known = context.rooms.topics.by_id
        by_id = context.version >= self._first_by_id
        for row in field_of(request, self._rows) or ():
            key = field_of(row, 1 if by_id else 0)
            if len(key) <= MAX_NAME and (not by_id or key in known):
                granted.topics.add(key)
                self._names += 1

    def _has_all(
        self, granted: Granted, context: "dispatch_kernels.RequestContext", request: Any
    ) -> bool:
        """Tell whether a client was permitted all that a request needs."""
        if self._rows >= 0:
            rows = field_of(request, self._rows)
            column = 1 if context.version >= self._first_by_id else 0
            for row in rows:
                if field_of(row, column) not in granted.topics:
                    return False
        if self._kind == SESSION:
            return self._has_session(granted, context, request)
        return not self._needs_whole(request) or field_of(request, WHOLE_COLUMN) in granted.wholes

    def _has_session(
        self, granted: Granted, context: "dispatch_kernels.RequestContext", request: Any
    ) -> bool:
        """Tell whether all that a session has named was judged, for this client, last."""
        if replica_of(request) >= 0:
            return False
        if number_of(request, SESSION_EPOCH) <= 0:
            return True
        judged = context.rooms.sessions.judged
        return judged.get(field_of(request, SESSION_ID)) is granted

    def _needs_whole(self, request: Any) -> bool:
        return self._kind == WHOLE or is_transactional(field_of(request, self._rows))


def is_transactional(topics: "Any") -> bool:
    """Tell whether a batch of a Produce's topics says that it belongs to a transaction."""
    region = no_region()
    found = False
    for row in topics:
        for partition in field_of(row, 2):
            records = field_of(partition, 1)
            if records is not None:
                acquire(records, region)
                found = (
                    region.len >= ATTRIBUTES_POSITION + 2
                    and read_int16(region.buf, ATTRIBUTES_POSITION) & TRANSACTIONAL != 0
                )
                release(region)
                if found:
                    return True
    return found
