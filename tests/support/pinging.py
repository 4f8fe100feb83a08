"""A client process that measures round trips: it imports little and shares no GIL with the broker.

python pinging.py PORT WINDOWS SECONDS prints the median and the `late` quantile of each window.
"""

import socket
import struct
import sys
import time

LATE = 0.4
_PING = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def ping(port: int, windows: int, seconds: float) -> None:
    """Make round trips one after the other."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = 0
        for _ in range(windows):
            took: list[float] = []
            ends = time.perf_counter() + seconds
            while (began := time.perf_counter()) < ends or len(took) < 5:
                client.sendall(_PING)
                answer = client.recv(4096)
                size = size or int.from_bytes(answer[:4], "big") + 4
                received = len(answer)
                while received < size:
                    received += len(client.recv(4096))
                took.append(time.perf_counter() - began)
            print(*_summarize(took), flush=True)  # noqa: T201


def _summarize(took: list[float]) -> tuple[float, float]:
    """Return the median, and what `LATE` of the time is spent in longer ones than."""
    took.sort()
    rest = sum(took) * LATE
    late = took[-1]
    for late in reversed(took):
        rest -= late
        if rest <= 0:
            break
    return took[len(took) // 2], late


if __name__ == "__main__":
    ping(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
