"""Sends frames to a broker, some on each connection, from a process of its own."""

import itertools
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tests.support.frames import make_frame, make_login
from tests.support.ports import address_of

THREADS: Final = 4
BURST: Final = 8
"""Frames that are sent one behind the other."""
LOGINS: Final = 10
"""One number in so many is a login, on a connection of its own."""
TIMEOUT: Final = 30
_SOON: Final = 0.2
"""So long a request may wait for something; then the client goes away."""
_LAST_ID: Final = 0x70696E67
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, _LAST_ID, -1)
"""The request at the end of every connection: its answer says that all before it is served."""
_LINGER: Final = struct.pack("ii", 1, 0)  # no TIME_WAIT: ports are 28,000 and frames a million


def send(
    address: str, logins: str, seed: int, first: int, count: int, *, valid: bool = False
) -> Counter[str]:
    """Send the frames of a range of numbers; return how many were answered, and how many closed.

    ``logins`` is the address with SASL. ``valid``: send well-formed requests instead, to know what
    the load alone does.

    Raises:
        TimeoutError: The broker neither answered nor closed; the message has the number.
    """
    outcomes: Counter[str] = Counter()
    failures: list[BaseException] = []

    def work(start: int) -> None:
        own: Counter[str] = Counter()
        numbers = range(first + start, first + count, THREADS)
        try:
            for frames in _cut(each for each in numbers if valid or each % LOGINS):
                make = _make_valid if valid else make_frame
                _send_all(address, [(each, make(seed, each)) for each in frames], own)
            for number in () if valid else numbers:
                if number % LOGINS == 0:
                    _send_all(logins, [(number, make_login(seed, number))], own)
        except BaseException as error:  # noqa: BLE001 - told to the caller
            failures.append(error)
        outcomes.update(own)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return outcomes


def _make_valid(_seed: int, _number: int) -> bytes:
    return _API_VERSIONS


def _cut(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Yield bursts of numbers."""
    each = iter(numbers)
    while burst := list(itertools.islice(each, BURST)):
        yield burst


def _send_all(address: str, frames: list[tuple[int, bytes]], outcomes: Counter[str]) -> None:
    """Send the frames; behind one that ends its connection the others go on with another."""
    while frames:
        outcome, answered = _send_burst(address, frames)
        outcomes["answered"] += min(answered, len(frames))
        outcomes[outcome] += answered < len(frames)
        frames = frames[answered + 1 :]


def _send_burst(address: str, burst: list[tuple[int, bytes]]) -> tuple[str, int]:
    """Send some frames and read what comes; return how it ended and how many were answered.

    The end of the stream is sent, too, if the frames leave the broker waiting for more, or if one
    of them has it wait for something else.
    """
    data = b"".join(frame for _, frame in burst) + _API_VERSIONS
    received = bytearray()
    with socket.create_connection(address_of(address), timeout=TIMEOUT) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        is_over = not _is_whole(data)
        outcome = "closed"
        try:
            client.sendall(data)
            if is_over:
                client.shutdown(socket.SHUT_WR)
            else:
                client.settimeout(_SOON)
            while True:
                try:
                    more = client.recv(1 << 16)
                except TimeoutError:
                    if is_over:
                        raise
                    outcome, is_over = "waited", True
                    client.shutdown(socket.SHUT_WR)
                    client.settimeout(TIMEOUT)
                    continue
                received += more
                answers = _ids(received)
                if answers[-1:] == [_LAST_ID]:
                    return outcome, len(burst)
                if not more:
                    return outcome, len(answers)
        except (ConnectionResetError, BrokenPipeError):
            return "reset", len(_ids(received))
        except OSError as error:
            text = "\n".join(f"frame {number}: {frame.hex()}" for number, frame in burst)
            raise TimeoutError(f"one of these hangs ({error}):\n{text}") from error


def _is_whole(data: bytes) -> bool:
    """Tell whether the stream ends where a frame does."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 0:
            return True  # the broker ends it
        at += 4 + size
    return at == len(data)


def _ids(received: bytearray) -> list[int]:
    """Return the correlation ids of whole answers."""
    found = []
    at = 0
    while at + 8 <= len(received):
        size, correlation_id = struct.unpack_from(">ii", received, at)
        at += 4 + size
        if at > len(received):
            break
        found.append(correlation_id)
    return found


if __name__ == "__main__":
    address, logins, seed, first, count, kind = sys.argv[1:]
    outcomes = send(address, logins, int(seed), int(first), int(count), valid=kind == "valid")
    print(*(f"{name}={count}" for name, count in sorted(outcomes.items())))  # noqa: T201
