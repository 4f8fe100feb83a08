"""A plain TCP connection of the loop's own: receive into given memory, send bytes and file ranges.

``os.sendfile`` needs a socket, and uvloop's transports do not give theirs, so the channel has its
own and uses ``add_reader`` and ``add_writer``; that is as fast as an epoll loop by hand (measured).
A range above ``INLINE_BYTES`` goes by sendfile. A smaller one is read and joined with its
neighbours in one ``sendmsg``, which costs less. One from ``HANDED_BYTES`` on goes to a sender
thread. Pages that are not in memory are brought in on an io thread first, so that a cold read
stalls one client and not all of them.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.broker.net.turn._turn_kernels import Transport
from siltstone.protocol.parts import FileSlice

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from siltstone.broker.net.sending.senders import Senders
    from siltstone.broker.process.io import IoThreads

INLINE_BYTES = 64 * 1024
# What a consumer asks of a partition by default, and the head of the answer, leave in one turn.
TURN_BYTES = 1024 * 1024 + INLINE_BYTES
# More than a socket takes at once with its usual buffer; the loop would have to send the rest.
HANDED_BYTES = 256 * 1024
_SCRATCH = memoryview(bytearray(4 * INLINE_BYTES))
_MAX_BUFFERS = 64
# A small part costs a read whatever its size, and counts as that much more: a thousand in a turn.
_PART_BYTES = TURN_BYTES // 1024
_WOULD_BLOCK = -1
_BYTE = memoryview(bytearray(1))


class _Residency:
    """Whether the kernel can say that a page is not in memory (tmpfs and some others cannot)."""

    flags = os.RWF_NOWAIT


def _read_resident(file: int, into: memoryview, position: int) -> int:
    """Read without waiting for the disk; return bytes read, or -1 if a page is not in memory."""
    try:
        return os.preadv(file, [into], position, _Residency.flags)
    except BlockingIOError:
        return _WOULD_BLOCK
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP or not _Residency.flags:
            raise
        _Residency.flags = 0
        return os.preadv(file, [into], position)


def warm(file: int, position: int, size: int) -> None:
    """Bring a file range into the page cache; waits for the disk, so io threads only.

    Raises:
        OSError: The disk fails, or the file is shorter than the range says.
    """
    os.posix_fadvise(file, position, size, os.POSIX_FADV_WILLNEED)
    end = position + size
    while position < end:
        got = len(os.pread(file, min(INLINE_BYTES * 4, end - position), position))
        if not got:
            raise OSError(errno.EIO, f"file ends before position {end}")
        position += got


class PlainChannel(Transport):
    """One client's socket (loop only).

    Invariants: what is unsent leaves in order. At most ``TURN_BYTES`` of file data, and a thousand
    small parts, leave in one turn of the loop, so that no reader starves the others. A queued
    ``FileSlice`` keeps its file open. While a sender has ``_handed`` bytes, it has the socket.
    ``on_drained`` is called when everything has left, ``on_lost`` with a reason when the peer or a
    file fails.
    """

    __slots__ = (
        "_cold",
        "_handed",
        "_io",
        "_loop",
        "_on_drained",
        "_socket",
        "_warming",
        "_writing",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        io: IoThreads,
        on_drained: Callable[[], None],
        on_lost: Callable[[str], None],
    ) -> None:
        super().__init__(sock.fileno(), on_lost)
        self._loop = loop
        self._socket = sock
        self._io = io
        self._on_drained = on_drained
        self._writing = False
        self._cold = False
        self._handed = 0
        self._warming: FileSlice | None = None

    def is_ended(self) -> bool:
        """Return whether the peer has closed, without taking any of its bytes."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def send(self, parts: Sequence[bytes | memoryview | FileSlice]) -> None:
        """Send or queue ``parts`` in order; the channel owns them afterwards."""
        self.unsent.extend(filter(len, parts))
        if not self._writing and not self._cold and not self._handed:
            self._flush()

    def close(self) -> None:
        """Stop watching and close the socket; safe to call again.

        A socket that a sender uses is shut down now and closed when the sender has finished, so
        that its descriptor cannot become another connection's meanwhile.
        """
        if self._writing:
            self._loop.remove_writer(self.fileno)
            self._writing = False
        self.fileno = -1
        self.unsent.clear()
        if self._handed:
            with suppress(OSError):  # the peer may have gone already
                self._socket.shutdown(socket.SHUT_RDWR)
        else:
            self._socket.close()

    def _watch(self) -> None:
        if not self._writing:
            self._loop.add_writer(self.fileno, self._on_writable)
            self._writing = True

    def _on_writable(self) -> None:
        self._flush()
        if not self.unsent and self._writing:
            self._loop.remove_writer(self.fileno)
            self._writing = False
            self._on_drained()

    def _flush(self) -> None:
        """Send what the socket takes, at most one turn's worth; watch for more room if needed."""
        budget = TURN_BYTES
        queue = self.unsent
        try:
            while queue and budget > 0:
                head = queue[0]
                if isinstance(head, FileSlice) and head.size > INLINE_BYTES:
                    sent = self._send_file(head, budget)
                else:
                    parts = len(queue)
                    sent = self._send_joined()
                    budget -= (parts - len(queue)) * _PART_BYTES
                if sent < 0:
                    break
                budget -= sent
        except OSError as error:
            self._on_lost(error.strerror or str(error))
            return
        if queue and not self._cold and not self._handed:
            self._watch()

    def _send_file(self, head: FileSlice, budget: int) -> int:
        """Send a piece of one file range; return its size or -1 when the socket is full."""
        count = min(head.size, budget)
        file = head.file.fileno()
        last = head.position + count - 1
        for position in (head.position, last):
            read = _read_resident(file, _BYTE, position)
            if read == _WOULD_BLOCK:
                return self._warm(head, count)
            if not read:
                raise OSError(errno.EIO, f"file ends before position {last + 1}")
        if count >= HANDED_BYTES:
            senders = self._io.find_senders()
            if senders is not None and senders.can_take(self.fileno):
                return self._hand_over(senders, head, count)
        try:
            sent = os.sendfile(self.fileno, file, head.position, count)
        except (BlockingIOError, InterruptedError):
            return _WOULD_BLOCK
        if not sent:
            raise OSError(errno.EIO, f"file ends before position {last + 1}")
        if sent == head.size:
            self.unsent.popleft()
        else:
            self.unsent[0] = FileSlice(head.file, head.position + sent, head.size - sent)
        return sent

    def _hand_over(self, senders: Senders, head: FileSlice, count: int) -> int:
        """Hand a piece of a range, and the few bytes that end the answer, to a sender."""
        tail = b""
        if count == head.size and len(self.unsent) > 1:
            following = self.unsent[1]
            if type(following) is bytes and len(following) <= senders.tail_bytes:
                tail = following
        if self._writing:
            self._loop.remove_writer(self.fileno)
            self._writing = False
        piece = FileSlice(head.file, head.position, count)
        senders.send(self.fileno, piece, tail, self._on_sent)
        self._handed = count + len(tail)
        return _WOULD_BLOCK

    def _on_sent(self, error: int) -> None:
        """Continue after a sender has sent everything or has failed."""
        handed, self._handed = self._handed, 0
        if not self.unsent:  # closed meanwhile
            self._socket.close()
            return
        if error:
            self._on_lost(os.strerror(error))
            return
        self._drop(handed)
        if self.unsent:
            self._flush()
        if not self.unsent:
            self._on_drained()

    def _send_joined(self) -> int:
        """Send the leading bytes and small ranges in one call; return bytes sent, -1 if full."""
        buffers: list[bytes | memoryview] = []
        total = filled = 0
        flags = 0
        for part in self.unsent:
            if len(buffers) == _MAX_BUFFERS or total >= TURN_BYTES:
                break
            if isinstance(part, FileSlice):
                if part.size > INLINE_BYTES or filled + part.size > len(_SCRATCH):
                    flags = socket.MSG_MORE
                    break
                view = _SCRATCH[filled : filled + part.size]
                got = _read_resident(part.file.fileno(), view, part.position)
                if got != part.size:
                    if got == 0:
                        raise OSError(errno.EIO, f"file ends before position {part.position}")
                    if buffers:
                        break
                    return self._warm(part, part.size)
                filled += got
                buffers.append(view)
            else:
                buffers.append(part)
            total += len(buffers[-1])
        try:
            sent = self._socket.sendmsg(buffers, (), flags)
        except (BlockingIOError, InterruptedError):
            return _WOULD_BLOCK
        if sent != total:
            self._drop(sent)
            return _WOULD_BLOCK
        self._pop(len(buffers))
        return sent

    def _pop(self, count: int) -> None:
        """Remove so many parts from the head of the queue: all of them has left."""
        for _ in range(count):
            self.unsent.popleft()

    def _drop(self, sent: int) -> None:
        """Remove ``sent`` bytes from the head of the queue."""
        queue = self.unsent
        while sent:
            head = queue[0]
            size = len(head)
            if sent >= size:
                queue.popleft()
                sent -= size
                continue
            if isinstance(head, FileSlice):
                queue[0] = FileSlice(head.file, head.position + sent, size - sent)
            else:
                queue[0] = memoryview(head)[sent:]
            return

    def _warm(self, part: FileSlice, count: int) -> int:
        """Read cold pages on an io thread; sending continues when they are in memory."""
        if self._writing:
            self._loop.remove_writer(self.fileno)
            self._writing = False
        self._cold = True
        future = self._io.run(warm, part.file.fileno(), part.position, count)
        self._warming = part
        future.add_done_callback(self._on_warm)
        return _WOULD_BLOCK

    def _on_warm(self, done: asyncio.Future[None]) -> None:
        self._cold = False
        self._warming = None
        if done.cancelled() or not self.unsent:
            return
        error = done.exception()
        if error is not None:
            self._on_lost(str(error))
            return
        self._flush()
        if not self.unsent:
            self._on_drained()
