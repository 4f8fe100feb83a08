"""A client process that measures round trips: it imports little and shares no GIL with the broker.

python pinging.py PORT WINDOWS SECONDS ENOUGH THREAD prints the median and the `late` quantile of
each window, up to the first whose quantile is not above ENOUGH. THREAD is the folder in /proc of
the broker's loop. Time in which the loop or the client could run but had no processor is not
counted: other programs caused it.
"""

import os
import socket
import struct
import sys
import time

LATE = 0.4
_PING = struct.pack(">ihhih", 10, 18, 0, 7, -1)


class HeldUp:
    """The time in which threads could run but had no processor, as Linux reports it."""

    def __init__(self, *threads: str) -> None:
        self._files = [open(f"{thread}/schedstat", "rb", 0) for thread in threads]  # noqa: PTH123, SIM115

    def seconds(self) -> float:
        """Return the sum since they began."""
        return sum(int(os.pread(each.fileno(), 64, 0).split()[1]) for each in self._files) / 1e9


def ping(port: int, windows: int, seconds: float, enough: float, thread: str) -> None:
    """Make round trips one after the other."""
    held_up = HeldUp(thread, "/proc/thread-self")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = 0
        for _ in range(windows):
            took: list[float] = []
            ends = time.perf_counter() + seconds
            while (began := time.perf_counter()) < ends or len(took) < 5:
                before = held_up.seconds()
                client.sendall(_PING)
                answer = client.recv(4096)
                size = size or int.from_bytes(answer[:4], "big") + 4
                received = len(answer)
                while received < size:
                    received += len(client.recv(4096))
                elapsed = time.perf_counter() - began
                took.append(max(elapsed - (held_up.seconds() - before), 0.0))
            median, late = _summarize(took)
            print(median, late, flush=True)  # noqa: T201
            if late <= enough:
                break


def _summarize(took: list[float]) -> tuple[float, float]:
    """Return the median, and the length above which round trips take `LATE` of the time."""
    took.sort()
    rest = sum(took) * LATE
    late = took[-1]
    for late in reversed(took):
        rest -= late
        if rest <= 0:
            break
    return took[len(took) // 2], late


if __name__ == "__main__":
    _, port, windows, seconds, enough, thread = sys.argv
    ping(int(port), int(windows), float(seconds), float(enough), thread)
