"""Sends frames to a broker, each on a connection of its own, from a process of its own."""

import socket
import struct
import sys
import threading
from collections import Counter

from tests.support.frames import make_frame
from tests.support.ports import address_of

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
THREADS = 4
TIMEOUT = 30
_LINGER = struct.pack("ii", 1, 0)  # no TIME_WAIT: ports are 28,000 and frames a million


def send(address: str, seed: int, first: int, count: int, *, valid: bool = False) -> Counter[str]:
    """Send the frames of a range of numbers; return how many were answered, and how many closed.

    ``valid``: send well-formed requests instead, to know what the load alone does.

    Raises:
        TimeoutError: The broker neither answered nor closed; the message has the number.
    """
    outcomes: Counter[str] = Counter()
    failures: list[BaseException] = []

    def work(start: int) -> None:
        own: Counter[str] = Counter()
        try:
            for number in range(first + start, first + count, THREADS):
                frame = API_VERSIONS if valid else make_frame(seed, number)
                own[_send_one(address, frame, number)] += 1
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


def _send_one(address: str, frame: bytes, number: int) -> str:
    """Send a frame and the end of the stream, and read until the broker ends it too."""
    with socket.create_connection(address_of(address), timeout=TIMEOUT) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        answered = False
        try:
            client.sendall(frame)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                answered = True
        except (ConnectionResetError, BrokenPipeError):
            return "reset"
        except TimeoutError as error:
            raise TimeoutError(f"frame {number} hangs: {frame.hex()}") from error
        return "answered" if answered else "closed"


if __name__ == "__main__":
    address, seed, first, count, kind = sys.argv[1:]
    outcomes = send(address, int(seed), int(first), int(count), valid=kind == "valid")
    print(*(f"{name}={count}" for name, count in sorted(outcomes.items())))  # noqa: T201
