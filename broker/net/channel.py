"""A plain TCP connection of the loop's own: receive into given memory, send bytes and file ranges.

``sendfile`` needs a socket, and uvloop's transports do not expose theirs. So the channel has its
own socket and uses ``add_reader`` and ``add_writer``, which measured as fast as an epoll loop by
hand. A range above ``INLINE_BYTES`` is sent by sendfile. A smaller range is read and joined with
its neighbours in one ``send``, which costs less. A range from ``HANDED_BYTES`` on goes to a sender
thread. Pages that are not in memory are first read on an io thread, so that a cold read
stalls one client and not all of them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.broker.net.outlet import Outlet, ignore
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import INLINE_BYTES, IS_COLD, SOCKET_IS_FULL, Transport
from siltstone.broker.process import sockets
from siltstone.protocol.parts import FileSlice

if TYPE_CHECKING:
    from siltstone.broker.net.sending.senders import Senders

# In one turn a consumer's default bytes for a partition and the answer's head can leave.
TURN_BYTES = 1024 * 1024 + INLINE_BYTES
# More than a socket with its usual buffer accepts at once; the loop would have to send the rest.
HANDED_BYTES = 256 * 1024
# Each small part costs a read, so it counts as these bytes more: at most a thousand parts a turn.
_PART_BYTES = TURN_BYTES // 1024


class PlainChannel(Transport):
    """One client's socket (loop only).

    Invariants: unsent parts leave in order. At most ``TURN_BYTES`` of file data, and a thousand
    small parts, leave in one turn of the loop, so that no reader starves the others. A queued
    ``FileSlice`` keeps its file open. The channel's ``Outlet`` does all waiting. ``on_drained`` is
    called when everything has left, ``on_lost`` with a reason when the peer or a file fails.
    """

    __slots__ = ("_loop", "_on_drained", "_outlet", "_rare", "_sending")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fileno: int,
        sending: SendingThreads,
        on_drained: Callable[[], None],
        on_lost: Callable[[str | Exception], None],
    ) -> None:
        """Take over the descriptor of a non-blocking socket."""
        super().__init__(fileno, on_lost)
        self._loop = loop
        self._rare: socket.socket | None = None
        self._sending = sending
        self._on_drained = on_drained
        self._outlet: Outlet | None = None

    def start_reading(self, on_input: Callable[[], None]) -> None:
        """Call ``on_input`` whenever there are bytes to receive."""
        self._loop.add_reader(self.fileno, on_input)

    def stop_reading(self) -> None:
        """Stop calling ``on_input``."""
        self._loop.remove_reader(self.fileno)

    def is_ended(self) -> bool:
        """Return whether the peer has closed; no bytes are consumed."""
        if self.fileno < 0:
            return True
        try:
            return not sockets.peek(self._find_socket(), 1)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def send(self, parts: Sequence[bytes | memoryview | FileSlice]) -> None:
        """Send or queue ``parts`` in order; the channel owns them afterwards."""
        self.unsent.extend(filter(len, parts))
        if self._outlet is None or not self._outlet.is_waiting:
            self.flush()

    def close(self) -> None:
        """Stop watching and close the socket; safe to call again.

        If a sender uses the socket, the socket is shut down now and closed when the sender has
        finished, so that no other connection can get its descriptor meanwhile.
        """
        if self.fileno < 0:
            return
        outlet = self._outlet
        if outlet is not None:
            outlet.close()
        self.unsent.clear()
        if outlet is not None and outlet.handed:
            sock = self._find_socket()
            with suppress(OSError):  # the peer may have closed already
                sockets.shut(sock)
        elif self._rare is not None:
            self._rare.close()
        else:
            sockets.close(self.fileno)
        self.fileno = -1
        self._on_lost = self._on_drained = ignore

    def _find_outlet(self) -> Outlet:
        """Return the `Outlet`, created at first use: most connections never wait."""
        if self._outlet is None:
            self._outlet = Outlet(
                self, self._loop, self._sending.io, self._on_drained, self._on_lost
            )
        return self._outlet

    def _find_socket(self) -> socket.socket:
        """Return the socket as a Python object, which few connections ever need."""
        if self._rare is None:
            self._rare = sockets.own(self.fileno)
        return self._rare

    def _watch(self) -> None:
        self._find_outlet().watch()

    def flush(self) -> None:
        """Send what the socket has room for, at most one turn's worth; then wait by the outlet."""
        budget = TURN_BYTES
        queue = self.unsent
        try:
            while queue and budget > 0:
                head = queue[0]
                if isinstance(head, FileSlice) and head.size > INLINE_BYTES:
                    sent = self._send_file(head, budget)
                else:
                    parts = len(queue)
                    sent = self.send_joined()
                    if sent == IS_COLD:
                        self._warm(queue[0], len(queue[0]))  # type: ignore[arg-type]  # a range
                    budget -= (parts - len(queue)) * _PART_BYTES
                if sent < 0:
                    break
                budget -= sent
        except OSError as error:
            self._on_lost(error.strerror or str(error))
            return
        if queue and not (outlet := self._find_outlet()).is_waiting:
            outlet.watch()

    def _send_file(self, head: FileSlice, budget: int) -> int:
        """Send a piece of one file range; return its size, or -1 if the socket is full."""
        count = min(head.size, budget)
        if not self.is_in_memory(head, count):
            return self._warm(head, count)
        if count >= HANDED_BYTES:
            senders = self._sending.find_senders()
            if senders is not None and senders.can_take(self.fileno):
                return self._hand_over(senders, head, count)
        try:
            sent = sockets.send_file(self.fileno, head.file.fileno(), head.position, count)
        except (BlockingIOError, InterruptedError):
            return SOCKET_IS_FULL
        if not sent:
            raise OSError(errno.EIO, f"file ends before position {head.position + count}")
        self.drop(sent)
        return sent

    def _hand_over(self, senders: Senders, head: FileSlice, count: int) -> int:
        """Hand a piece of a range to a sender, with the few bytes that end the answer."""
        tail = b""
        if count == head.size and len(self.unsent) > 1:
            following = self.unsent[1]
            if type(following) is bytes and len(following) <= senders.tail_bytes:
                tail = following
        piece = FileSlice(head.file, head.position, count)
        senders.send(self.fileno, piece, tail, self._on_sent)
        self._find_outlet().hand_over(count + len(tail))
        return SOCKET_IS_FULL

    def _on_sent(self, error: int) -> None:
        """Continue after a sender has sent everything or has failed."""
        outlet = self._find_outlet()
        handed = outlet.take_back()
        if self.fileno < 0:  # closed meanwhile
            if self._rare is not None:
                self._rare.close()
            return
        if error:
            self._on_lost(os.strerror(error))
            return
        self.drop(handed)
        outlet.resume()

    def _warm(self, part: FileSlice, count: int) -> int:
        self._find_outlet().warm(part, count)
        return SOCKET_IS_FULL
