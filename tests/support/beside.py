"""The cost of one request to a broker process: how long others wait, how much memory it takes.

Time in which a thread could run but had no processor is the machine's fault, not the broker's;
Linux reports it, and it is subtracted from the waits.
"""

import socket
import struct
import threading
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.turns import Turns

_PAUSE_SECONDS = 0.002
_THIS_THREAD = Path("/proc/thread-self/schedstat")
_SMALL = (
    struct.pack(">ihhih", 10, 18, 0, 1, -1),  # ApiVersions
    struct.pack(">ihhihih1s", 17, 3, 1, 2, -1, 1, 1, b"t"),  # Metadata of one topic
    struct.pack(">ihhihh1sih1s", 20, 12, 0, 3, -1, 1, b"t", 1, 1, b"t"),  # Heartbeat
)


class Cost(NamedTuple):
    """The measurements of one request."""

    answer: str
    """Bytes of the answer, or how it ended."""
    seconds: float
    """From its first byte to the answer's last."""
    wait: float
    """The longest that a small request of somebody else took meanwhile, in seconds."""
    turn: float
    """The longest turn of the broker's loop, in seconds of its processor time."""
    memory: int
    """How many bytes the process had at most beyond what it had before."""


class Control:
    """A client with a thread of its own: a small request every few milliseconds."""

    def __init__(self, address: tuple[str, int], pid: int) -> None:
        self._address = address
        self._loop = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._worst = 0.0
        self._rounds = 0
        self._began: float | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="control")

    def start(self) -> None:
        """Begin to send requests."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending requests."""
        self._is_over = True
        self._thread.join()

    def begin(self) -> None:
        """Forget earlier measurements."""
        self._worst = 0.0

    def wait(self, timeout: float, rounds: int = 2) -> float:
        """Return the longest wait since `begin`, once so many more rounds have ended."""
        enough = self._rounds + rounds
        deadline = time.monotonic() + timeout
        while self._rounds < enough and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(_PAUSE_SECONDS)
        began = self._began
        return max(self._worst, 0.0 if began is None else time.perf_counter() - began)

    def _run(self) -> None:
        with socket.create_connection(self._address, timeout=1) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._is_over:
                for request in _SMALL:
                    held_up = self._held_up()
                    self._began = time.perf_counter()
                    client.sendall(request)
                    if not self._receive(client):
                        return
                    wait = time.perf_counter() - self._began
                    self._worst = max(self._worst, wait - (self._held_up() - held_up))
                    self._began = None
                self._rounds += 1
                time.sleep(_PAUSE_SECONDS)

    def _held_up(self) -> float:
        """Return for how long the broker's loop and this thread had no processor, in seconds."""
        return _run_queue_seconds(self._loop) + _run_queue_seconds(_THIS_THREAD)

    def _receive(self, client: socket.socket) -> bool:
        """Take one answer; false if the broker or the test has ended."""
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            try:
                more = client.recv(65_536)
            except TimeoutError:
                if self._is_over:
                    return False
                continue
            except OSError:
                return False
            if not more:
                return False
            data += more
        return True


def measure(  # the request, and how it is measured
    address: tuple[str, int], pid: int, frame: bytes, control: Control, turns: Turns, timeout: float
) -> Cost:
    """Send one frame on a connection of its own and return what it cost."""
    process = Path(f"/proc/{pid}")
    (process / "clear_refs").write_text("5")  # resets the peak of memory to the present use
    before = _kilobytes(process, "VmRSS")
    with socket.create_connection(address, timeout=timeout) as client:
        control.begin()
        turns.begin()
        began = time.monotonic()
        answer = _ask(client, frame)
        seconds = time.monotonic() - began
        wait = control.wait(timeout)
    taken = (_kilobytes(process, "VmHWM") - before) * 1024
    return Cost(answer, seconds, wait, turns.longest, taken)


def _ask(client: socket.socket, frame: bytes) -> str:
    """Return the size of the answer, or that the broker closed or did not answer."""
    try:
        client.sendall(frame)
        size = client.recv(4, socket.MSG_WAITALL)
        if len(size) < 4:
            return "closed"
        left = int.from_bytes(size, "big")
        while left > 0:
            more = client.recv(min(left, 1 << 20))
            if not more:
                return "closed"
            left -= len(more)
    except TimeoutError:
        return "nothing"
    except OSError:
        return "closed"
    return str(int.from_bytes(size, "big"))


def _kilobytes(process: Path, name: str) -> int:
    return int((process / "status").read_text().partition(f"{name}:")[2].split()[0])


def _run_queue_seconds(thread: Path) -> float:
    """Return how long a thread has been waiting for a processor; 0 if the kernel does not tell."""
    try:
        return int(thread.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
