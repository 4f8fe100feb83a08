"""An encrypted connection, with the same methods as `broker.net.channel.PlainChannel`.

OpenSSL works on the socket itself, through the ``ssl`` module. The loop encrypts small answers; a
sender thread reads and encrypts larger ones with their file ranges.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.broker.net.channel import TURN_BYTES
from siltstone.broker.net.outlet import Outlet, ignore
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.tls.senders import TlsSenders, fill
from siltstone.broker.net.turn.turn import INLINE_BYTES, Transport
from siltstone.broker.process import sockets
from siltstone.protocol.parts import FileSlice

HANDED_BYTES: Final = 2 * INLINE_BYTES
"""From this size on, encryption on the loop costs more than a handover to a sender."""
_RECORD_BYTES: Final = 16 * 1024
"""The size of the largest TLS record: after a shorter one the socket is probably empty."""
_MAX_PARTS: Final = 256
_SCRATCH: Final = memoryview(bytearray(INLINE_BYTES))
_NOTHING_YET: Final = -1


class TlsChannel(Transport):
    """One client's socket, after the handshake (loop only).

    Invariants: unsent parts leave in order. While a sender has bytes (`Outlet`), only the sender
    uses the socket, and the loop neither reads nor writes. Bytes that OpenSSL could not write,
    ``_offered`` of them, are offered again unchanged. ``on_input`` is also called when OpenSSL
    holds decrypted bytes, since the kernel does not report those.
    """

    __slots__ = (
        "_is_due", "_is_ended", "_loop", "_offered", "_on_input", "_outlet", "_sending", "_socket",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: ssl.SSLSocket,
        sending: SendingThreads,
        on_drained: Callable[[], None],
        on_lost: Callable[[str | Exception], None],
    ) -> None:
        super().__init__(sock.fileno(), on_lost)
        self._loop = loop
        self._socket = sock
        self._sending = sending
        self._on_input: Callable[[], None] | None = None
        self._outlet = Outlet(self, loop, sending.io, on_drained, on_lost)
        self._offered = 0
        self._is_ended = False
        self._is_due = False

    def start_reading(self, on_input: Callable[[], None]) -> None:
        """Call ``on_input`` whenever there are bytes to receive."""
        self._on_input = on_input
        self._loop.add_reader(self.fileno, on_input)
        self._call_if_more()

    def stop_reading(self) -> None:
        """Stop calling ``on_input``."""
        self._on_input = None
        self._loop.remove_reader(self.fileno)

    def receive(self, buffer: memoryview, start: int, end: int) -> int:
        """Receive what has come into ``buffer[start:end]``.

        Returns:
            The number of bytes, 0 at the end of the stream, -1 if nothing has come yet.
        """
        position = start
        end = min(end, start + SHARED_BYTES)
        try:
            while position < end and not self._is_ended:
                got = self._socket.recv_into(buffer[position:end])
                self._is_ended = not got
                position += got
                if got < _RECORD_BYTES and not self._socket.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except OSError:  # also if a record was altered
            self._is_ended = True
        if position > start:
            self._call_if_more()
            return position - start
        return 0 if self._is_ended else _NOTHING_YET

    def is_ended(self) -> bool:
        """Return whether the peer has closed; no bytes are consumed."""
        try:
            return self._is_ended or not sockets.peek(self._socket, 1)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def send_bytes(self, whole: bytes) -> None:
        """Send or queue an answer of one piece, which is the common case."""
        self.send((whole,))

    def send(self, parts: Sequence[bytes | memoryview | FileSlice]) -> None:
        """Send or queue ``parts`` in order; the channel owns them afterwards."""
        self.unsent.extend(filter(len, parts))
        if not self._outlet.is_waiting:
            self.flush()

    def close(self) -> None:
        """Close; unsent bytes are dropped."""
        self._outlet.close()
        self._on_lost = ignore
        self.fileno = -1
        is_whole = not self.unsent and not self._offered
        self.unsent.clear()
        if self._outlet.handed:  # the sender returns the socket when it fails, see _on_sent
            with suppress(OSError):
                sockets.shut(self._socket)
            return
        if is_whole:
            with suppress(OSError, ValueError):
                self._socket.unwrap()  # tells the peer that this is the end; no answer is needed
        self._socket.close()

    def _call_if_more(self) -> None:
        """Schedule a call of ``on_input`` if OpenSSL still holds decrypted bytes."""
        if self._is_due or self._outlet.handed or self._on_input is None:
            return
        if self._is_ended or self._socket.pending():
            self._is_due = True
            self._loop.call_soon(self._on_more)

    def _on_more(self) -> None:
        self._is_due = False
        if self._on_input is not None:
            self._on_input()
        if self._on_input is not None:
            self._call_if_more()

    def flush(self) -> None:
        """Send what the socket has room for, at most one turn's worth; then wait by the outlet."""
        budget = TURN_BYTES
        try:
            while self.unsent and budget > 0:
                if self._hand_over() or (piece := self._gather()) is None:
                    return
                self._offered = len(piece)
                sent = self._socket.send(piece)
                self._offered = 0
                self.drop(sent)
                budget -= sent
        except ssl.SSLWantWriteError:
            pass
        except OSError as error:
            self._on_lost(error.strerror or str(error))
            return
        if self.unsent:
            self._outlet.watch()

    def _gather(self) -> bytes | memoryview | None:
        """Return the next bytes to encrypt; None while they are being read from the disk."""
        head = self.unsent[0]
        if len(self.unsent) == 1 and isinstance(head, bytes) and len(head) <= INLINE_BYTES:
            return head
        left = INLINE_BYTES
        for part in self.unsent:
            size = min(len(part), left)
            if not size:
                break
            if isinstance(part, FileSlice) and not self.is_in_memory(part, size):
                if 0 < INLINE_BYTES - left >= self._offered:
                    break
                self._outlet.warm(part, size)
                return None
            left -= size
        return _SCRATCH[: fill(self.unsent, _SCRATCH[: INLINE_BYTES - left])]

    def _hand_over(self) -> bool:
        """Hand unsent parts to a sender if they are large; return whether it has the socket now."""
        parts = []
        total = 0
        for part in islice(self.unsent, _MAX_PARTS):
            parts.append(part)
            total += len(part)
            if total >= TURN_BYTES:
                break
        senders: TlsSenders | None = None
        if total >= HANDED_BYTES:
            senders = self._sending.find_tls_senders()
        if senders is None:
            return False
        over = total - TURN_BYTES
        last = parts[-1]
        if over > 0 and isinstance(last, FileSlice):
            parts[-1] = FileSlice(last.file, last.position, last.size - over)
            total -= over
        for part in parts:
            if isinstance(part, FileSlice) and not self.is_in_memory(part, part.size):
                self._outlet.warm(part, part.size)
                return True
        senders.send(self._socket, parts, self._on_sent)
        self._outlet.hand_over(total)
        self._offered = 0
        return True

    def _on_sent(self, reason: str | Exception | None) -> None:
        """Continue after a sender has sent everything or has failed."""
        handed = self._outlet.take_back()
        if self.fileno < 0:  # closed meanwhile
            self._socket.close()
            return
        if reason is not None:
            self._on_lost(reason)
            return
        self.drop(handed)
        self._call_if_more()
        self._outlet.resume()
