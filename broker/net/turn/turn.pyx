"""One turn of a connection: receive once, serve the complete frames, send once."""

import errno
import os
from collections import deque
from typing import TYPE_CHECKING

cimport cython

from siltstone.broker.context cimport Unwritten
from siltstone.broker.net.gate cimport Gate, encode
from siltstone.broker.process._sockets cimport receive_octets, send_octets
from siltstone.protocol.core._format cimport (
    EAGAIN, EINTR, MSG_MORE, Region, Target, acquire, acquire_target, copy, inside, no_region,
    no_target, read_int16, release, release_target,
)
from siltstone.protocol.core._records cimport next_frame
from siltstone.storage.files._disk cimport read_resident
from siltstone.storage.log.end cimport Appends

from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.parts import FileSlice

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from siltstone.broker.net.buffers import LargeBuffer
    from siltstone.protocol.parts import LateAnswer

cpdef enum:
    FRAMES_PER_TURN = 64 # one turn serves at most so many requests of its client
    TURNS_PER_ROUND = 16 # at most so many connections share a round
    ALONE = 8 # after a round with one connection, so many turns are answered at once
    INLINE_BYTES = 65536  # a larger range of a file is not joined with its neighbours
    SOCKET_IS_FULL = -1
    IS_COLD = -2

cdef enum:
    ROUND_BYTES = 65536 # most bytes of waiting frames; a larger answer leaves at once
    JOINED_PARTS = 64
    SIZE_AND_KEY = 6

cdef Py_ssize_t SHARED = SHARED_BYTES
cdef object SCRATCH = memoryview(bytearray(SHARED_BYTES))


cdef struct Joined:  # joined parts and bytes, and the result of the last read
    Py_ssize_t count
    Py_ssize_t filled
    Py_ssize_t got


cdef struct Served:  # where served frames and the next frame end; the answers' size
    Py_ssize_t position
    Py_ssize_t end
    Py_ssize_t size


cdef class Turn


cdef class Transport:
    """Receives from and sends to a non-blocking socket (loop only).

    A call that copies no more than a shared buffer keeps the GIL: it ends before another thread
    could begin. If the call released the GIL, a computing thread could hold it for a whole switch
    interval.

    Invariants: the parts in ``unsent`` leave before any other bytes. ``fileno`` is -1 once the
    socket is closed, since its number may then belong to another connection.

    This is a base class of `PlainChannel` and not a member, since both change ``unsent``, and a
    turn calls `receive` and `send_bytes` without a Python call
    (docs/decisions/0015-compiled-bases.md).
    """

    cdef public object unsent  # type: deque[bytes | memoryview | FileSlice]
    cdef public object _on_lost  # type: Callable[[str | Exception], None]
    cdef public int fileno

    def __init__(self, int fileno, on_lost: Callable[[str | Exception], None]):
        self.fileno = fileno
        self.unsent = deque()
        self._on_lost = on_lost

    cpdef Py_ssize_t receive(
        self, object buffer: memoryview, Py_ssize_t start, Py_ssize_t end
    ) except -2:
        """Receive once into ``buffer[start:end]``.

        Returns:
            The number of bytes, 0 at the end of the stream, -1 if nothing has come yet.
        """
        cdef Target room = no_target()
        cdef int socket = self.fileno
        cdef Py_ssize_t received
        acquire_target(buffer, room)
        end = min(end, room.len)
        if end - start <= SHARED:
            received = receive_octets(socket, room.buf, start, end)
        else:
            with nogil:
                received = receive_octets(socket, room.buf, start, end)
        release_target(room)
        if received >= 0:
            return received
        return -1 if received in {-EAGAIN, -EINTR} else 0

    cpdef send_bytes(self, bytes whole):
        """Send or queue an answer of one piece, which is the common case."""
        cdef int socket = self.fileno
        cdef const unsigned char* octets = inside(whole)
        cdef Py_ssize_t size = len(whole)
        cdef Py_ssize_t sent
        if self.unsent:
            self.send((whole,))
            return
        if size <= SHARED:
            sent = send_octets(socket, octets, size, 0)
        else:
            with nogil:
                sent = send_octets(socket, octets, size, 0)
        if sent == size:
            return
        if sent < 0:
            if sent not in {-EAGAIN, -EINTR}:
                self._on_lost(os.strerror(-sent))
                return
            sent = 0
        self.unsent.append(memoryview(whole)[sent:])
        self._watch()

    cpdef Py_ssize_t send_joined(self) except? -1:
        """Send the bytes and small ranges at the head of ``unsent`` in one call.

        Returns:
            The number of bytes sent, SOCKET_IS_FULL if the socket did not accept all of them,
            IS_COLD if the head is a range that is not in memory.

        Raises:
            OSError: The peer or the file fails, or the file ends before the range does.
        """
        cdef Target room = no_target()
        cdef Joined joined
        cdef Py_ssize_t sent
        acquire_target(SCRATCH, room)
        joined = join(self.unsent, room)
        if joined.count:
            sent = send_octets(
                self.fileno, room.buf, joined.filled,
                MSG_MORE if len(self.unsent) > joined.count else 0,
            )
            release_target(room)
        else:
            release_target(room)
            head = self.unsent[0]
            if isinstance(head, FileSlice):
                check_read(joined.got, head.position)
                return IS_COLD
            joined.count = 1
            joined.filled = len(head)
            sent = send_large(self.fileno, head)
        if sent < 0:
            if sent in {-EAGAIN, -EINTR}:
                return SOCKET_IS_FULL
            raise OSError(-sent, os.strerror(-sent))
        if sent < joined.filled:
            self.drop(sent)
            return SOCKET_IS_FULL
        while joined.count:
            self.unsent.popleft()
            joined.count -= 1
        return sent

    cpdef bint is_in_memory(self, object part: FileSlice, Py_ssize_t count) except -1:
        """Tell whether the first and the last of ``count`` bytes of a range need no disk to be read.

        Raises:
            OSError: The file fails, or ends before these bytes do.
        """
        cdef Target room = no_target()
        cdef int file = part.file.fileno()
        cdef long long position = part.position
        cdef long long last = position + count - 1
        cdef Py_ssize_t got
        acquire_target(SCRATCH, room)
        got = read_resident(file, room.buf, 0, 1, position)
        if got > 0:
            position = last
            got = read_resident(file, room.buf, 0, 1, position)
        release_target(room)
        check_read(got, position)
        return got > 0

    cpdef drop(self, Py_ssize_t sent):
        """Remove ``sent`` bytes from the head of ``unsent``: they have left."""
        cdef Py_ssize_t size
        unsent = self.unsent
        while sent:
            head = unsent[0]
            size = len(head)
            if sent >= size:
                unsent.popleft()
                sent -= size
                continue
            if isinstance(head, FileSlice):
                unsent[0] = FileSlice(head.file, head.position + sent, size - sent)
            else:
                unsent[0] = memoryview(head)[sent:]
            return

    def send(self, parts: Sequence[bytes | memoryview | FileSlice]):
        """Send or queue ``parts`` in order."""
        raise NotImplementedError

    def flush(self):
        """Send what the socket accepts, at most one turn's worth; then wait for room."""
        raise NotImplementedError

    def _watch(self):
        """Continue to send when the socket has room."""
        raise NotImplementedError


cdef Joined join(object parts, Target room) except *:
    """Copy bytes and small ranges into ``room`` in their order, while there is room.

    ``got`` is the result of reading the last range (see ``read_resident``).
    """
    cdef Region region = no_region()
    cdef Py_ssize_t size
    cdef Joined joined
    joined.count = joined.filled = joined.got = 0
    for part in parts:
        size = len(part)
        if (
            joined.count == JOINED_PARTS
            or joined.filled + size > room.len
            or (isinstance(part, FileSlice) and size > INLINE_BYTES)
        ):
            break
        if isinstance(part, FileSlice):
            file = part.file.fileno()
            joined.got = read_resident(
                file, room.buf, joined.filled, joined.filled + size, part.position
            )
            if joined.got != size:
                break
        else:
            acquire(part, region)
            copy(room.buf, joined.filled, region.buf, 0, size)
            release(region)
        joined.filled += size
        joined.count += 1
    return joined


cdef Py_ssize_t send_large(int socket, object part):
    cdef Region region = no_region()
    cdef Py_ssize_t sent
    acquire(part, region)
    with nogil:
        sent = send_octets(socket, region.buf, region.len, 0)
    release(region)
    return sent


cdef check_read(Py_ssize_t got, long long position):
    """Raise OSError if ``read_resident`` failed, or found the end of the file."""
    if got == 0:
        raise OSError(errno.EIO, f"file ends before position {position + 1}")
    if got < 0 and got != -EAGAIN:
        raise OSError(-got, os.strerror(-got))


@cython.final
cdef class LoopRound:
    """Serves the connections from one wait of the loop to the next (loop only).

    Connections that have bytes are served one after the other. Meanwhile the batches of their
    requests wait in their logs (`Appends`), their frames in ``shared`` below ``kept``, and their
    answers in the turns. At the end of the round each log writes its waiting batches in one call,
    and then all answers leave. So a client with many connections, or many clients on one processor,
    wake up only once.

    To wait for the end costs a callback of the loop. So if a client was alone in a round, it is
    answered at once in its next few turns.
    """

    cdef readonly Appends appends
    cdef readonly object shared  # type: memoryview
    cdef readonly Py_ssize_t kept
    cdef object _loop
    cdef list _turns
    cdef Py_ssize_t _alone
    cdef bint _is_due

    def __init__(self, loop: asyncio.AbstractEventLoop, Appends appends):
        self.appends = appends
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.kept = 0
        self._loop = loop
        self._turns = []  # turns that owe answers
        self._alone = 0  # how many more turns are answered at once
        self._is_due = False

    cdef bint is_open(self) except -1:
        """Tell whether the new turn may wait for the end of the round; call it once a turn."""
        if self._alone:
            self._alone -= 1
            return False
        return True

    cdef int keep(self, Py_ssize_t filled) except -1:
        """Keep the frames below ``filled`` in the buffer if batches in them wait."""
        self.kept = filled if self.appends.logs else 0
        return 0

    cdef int add(self, Turn turn) except -1:
        """Let a turn's answers wait for the end of the round."""
        self._turns.append(turn)
        if len(self._turns) >= TURNS_PER_ROUND or self.kept > ROUND_BYTES:
            self.end()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._end_in_time)
        return 0

    cpdef end(self):
        """Write all waiting batches, then send all answers, each with its own results."""
        cdef list turns = self._turns
        if not turns:
            return
        self._turns = []
        self.kept = 0
        self._alone = ALONE if len(turns) == 1 else 0
        self.appends.write()
        self._answer(turns)

    def _end_in_time(self):
        self._is_due = False
        self.end()

    cpdef _answer(self, list turns):
        cdef Py_ssize_t number = 0
        cdef Turn turn
        try:
            while number < len(turns):
                turn = turns[number]
                number += 1
                turn.answer()
        finally:  # one connection's fault must not keep the answers of the others
            if number < len(turns):
                self._loop.call_soon(self._answer, turns[number:])


cdef bint has_rest(list answers) except *:
    """Tell whether the last answer is not a single frame, so that it is sent on its own."""
    return len(answers) > 0 and not isinstance(answers[len(answers) - 1], (bytes, Unwritten))


cdef bint is_produce(object frames, Py_ssize_t start, Py_ssize_t end) except *:
    """Tell whether a frame is a Produce request: its API key is 0."""
    cdef Region region = no_region()
    cdef bint found
    acquire(frames, region)
    found = end - start >= SIZE_AND_KEY and read_int16(region.buf, start + 4) == 0
    release(region)
    return found


cdef class Turn:
    """Serves a connection when its socket has bytes: receive once, serve, send once (loop only).

    Received bytes that cannot be served yet are in ``_tail``, at most one receive buffer of them.

    This is a base class of `Connection` and not a member, since the rarer methods of the connection
    change the same fields. The methods that `Connection` must have raise NotImplementedError here
    (docs/decisions/0015-compiled-bases.md).
    """

    cdef public object _loop  # type: asyncio.AbstractEventLoop
    cdef public object _shared  # type: memoryview
    cdef public object _frame  # type: LargeBuffer | None
    cdef public object _task  # type: asyncio.Task[None] | None
    cdef public Transport _channel
    cdef public Gate _gate
    cdef Appends _appends
    cdef readonly LoopRound _round
    cdef readonly list _owed  # type: list[Any] | None
    cdef public bytes _tail
    cdef public long long _limit, received
    cdef public Py_ssize_t _held
    cdef public double last_active
    cdef public bint _expects_large, is_closed

    def __init__(
        self, loop: asyncio.AbstractEventLoop, Transport channel, Gate gate, LoopRound loop_round,
        long long limit,
    ):
        self.is_closed = False
        self.last_active = loop.time()
        self.received = 0  # bytes in all
        self._loop = loop
        self._channel = channel
        self._gate = gate
        self._round = loop_round
        self._shared = loop_round.shared
        self._limit = limit
        self._appends = loop_round.appends
        self._owed = None  # answers that wait for the end of the round
        self._tail = b""
        self._held = 0  # how many bytes of tail and frame are counted
        self._frame = None
        self._expects_large = False
        self._task = None

    cpdef on_readable(self):
        """Take a turn: the loop calls this when the socket has bytes."""
        timer = self._gate.timer
        if timer is None:
            self._turn()
            return
        began = timer.begin()
        try:
            self._turn()
        finally:
            timer.end(self, began)

    cdef object _turn(self):
        self.last_active = self._loop.time()
        try:
            if (
                self._task is not None
                or self._frame is not None
                or self._tail
                or self._expects_large
                or self._channel.unsent
            ):
                self._go_on()
            else:
                self._receive()
        except Exception as error:
            self._refuse(error)
        if self._tail or self._held or self._frame is not None:
            self._count()

    cpdef _receive(self):
        """Receive into the shared buffer, after the bytes that are left from the last time."""
        cdef Py_ssize_t start = self._round.kept
        cdef bytes tail = self._tail
        cdef Py_ssize_t kept = len(tail)
        cdef Py_ssize_t received
        if kept:
            self._shared[start : start + kept] = tail
        received = self._channel.receive(self._shared, start + kept, len(self._shared))
        if received > 0:
            self.received += received
            self._tail = b""
            self._serve(start, start + kept + received)
        elif received == 0:
            self._end()

    cpdef _end(self):
        """Close, since the client has ended its side, but not before it has what is owed."""
        if self._owed is not None:
            self._round.end()
        if self._channel.unsent:
            self._go_on()
        else:
            self.close()

    cpdef _serve(self, Py_ssize_t start, Py_ssize_t filled):
        """Serve the complete frames of ``shared[start:filled]`` and send the answers together.

        It ends early at a request that must wait, at file ranges, and when other connections are
        due. The batches of several frames are written together, before the answers leave; so are
        the batches of several connections in a round.

        Raises:
            ProtocolError: `_dispatch_all` or `_settle` raises it.
        """
        cdef list answers = []
        cdef bint is_open = self._round.is_open()
        cdef bint is_more
        cdef Served served
        try:
            served = self._dispatch_all(start, filled, answers, is_open)
        except ProtocolError:
            self._send_joined(answers)
            raise
        self._round.keep(filled)
        reply = answers.pop() if has_rest(answers) else None
        if isinstance(reply, list):
            if served.position < filled:
                self._keep(self._shared[served.position:filled], 0)
            try:
                self._settle(answers)
            except ProtocolError:
                self._send_joined(answers)
                raise
            self._send([*answers, *reply])
        else:
            if served.position < filled:
                self._keep(self._shared[served.position:filled], served.end - served.position)
            if reply is not None:
                try:
                    self._send_joined(answers)
                finally:
                    self._await(reply)
                return
            if is_open and served.size <= ROUND_BYTES:
                self.owe(answers)
            else:
                self._send_joined(answers)
        if served.end > served.position:
            is_more = served.end <= filled
        else:
            is_more = len(self._tail) > 0
        if is_more and not self._channel.unsent:
            self._loop.call_soon(self.resume)

    cdef Served _dispatch_all(
        self, Py_ssize_t start, Py_ssize_t filled, list answers, bint is_open
    ) except *:
        """Put answers into ``answers``: each is one frame, except perhaps the last.

        With ``is_open`` batches may wait for those of other connections, if all answers are single
        frames.

        Raises:
            ProtocolError: `Gate.dispatch` raises it, or a frame states an impossible size.
        """
        cdef Appends appends = self._appends
        cdef bint waits = False
        cdef bint may_wait
        cdef Served served
        shared = self._shared
        served.position = start
        served.size = 0
        try:
            served.end = next_frame(shared, start, filled, self._limit)
            while served.end <= filled and len(answers) < FRAMES_PER_TURN and served.size < SHARED:
                if appends.logs and not is_produce(shared, served.position, served.end):
                    appends.write()
                    self._settle(answers)
                may_wait = is_open or served.end < filled or len(appends.logs) > 0
                reply = self._gate.dispatch(self, shared, served.position + 4, served.end, may_wait)
                served.position = served.end
                if reply is not None:
                    answers.append(reply)
                    if isinstance(reply, bytes):
                        served.size += len(reply)
                    elif not isinstance(reply, Unwritten):
                        break
                served.end = next_frame(shared, served.position, filled, self._limit)
            waits = is_open and served.size <= ROUND_BYTES and not has_rest(answers)
        finally:
            if not waits:
                appends.write()
        return served

    cpdef owe(self, list answers: list[Any]):
        """Send answers at the end of the round."""
        if self._owed is not None:
            self._owed += answers
        elif answers or self._appends.logs:
            self._owed = answers
            self._round.add(self)

    cpdef answer(self):
        """Send the answers that are owed."""
        cdef list owed = self._owed
        self._owed = None
        if not owed:
            return
        timer = self._gate.timer
        began = None if timer is None else timer.begin()
        try:
            self._send_joined(owed)
        except Exception as error:  # the answers of other connections must leave, too
            if not (self.is_closed and isinstance(error, ProtocolError)):
                self._refuse(error)
        finally:
            if timer is not None:
                timer.end(self, began)

    cdef int _settle(self, list answers) except -1:
        """Replace waiting answers by their bytes: their batches are written, or have failed.

        Raises:
            ProtocolError: One has no answer, so the connection must close; the ones before it stay.
        """
        cdef Py_ssize_t place = 0
        while place < len(answers):
            answer = answers[place]
            if isinstance(answer, Unwritten):
                try:
                    answers[place] = encode(answer) or b""
                except ProtocolError:
                    del answers[place:]
                    raise
            place += 1
        return 0

    cpdef _send_joined(self, list answers: list[Any]):
        """Send answers of one frame each together; raise ProtocolError as `_settle` does."""
        try:
            self._settle(answers)
        finally:
            whole = answers[0] if len(answers) == 1 else b"".join(answers)
            if whole:
                self._send(whole)

    cpdef _send(self, object answer: bytes | Sequence[bytes | memoryview | FileSlice]):
        if self._owed is not None:
            self._round.end()
        if self.is_closed:
            return
        if isinstance(answer, bytes):
            self._channel.send_bytes(answer)
        else:
            self._channel.send(answer)
        if self._channel.unsent:
            self._note_unread()

    def _go_on(self):
        """Wait for an answer that is owed, receive a large frame, or serve kept bytes."""
        raise NotImplementedError

    def _keep(self, rest: memoryview, frame_size: int):
        """Keep the bytes that were not served; they begin a frame of ``frame_size`` bytes."""
        raise NotImplementedError

    def _count(self):
        """Tell `Buffers` how many bytes this connection holds."""
        raise NotImplementedError

    def _note_unread(self):
        """Tell `Unread` that some answers have not left."""
        raise NotImplementedError

    def _await(self, reply: LateAnswer):
        """Wait for the answer of a request, and send it."""
        raise NotImplementedError

    def resume(self):
        """Continue when an answer has left or memory is free: kept bytes first, then new ones."""
        raise NotImplementedError

    def _refuse(self, error: Exception):
        """Close because of bytes that are not a Kafka request, or of a fault of the broker."""
        raise NotImplementedError

    def close(self, reason: str | None = None):
        """Close at once; ``reason``, a fault of the peer or of a file, is logged."""
        raise NotImplementedError
