"""Renews the pins of DataFrames while Spark's driver lives.

Spark plans a DataFrame once, in a process that ends soon, and reads it as often as its user likes.
So the first plan starts a program that renews the newest pins, for some hours. It ends with the
process that starts Spark's workers, which ends with the session, and then releases the pins.
"""

import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from siltstone.pipeline.client.pins import extend_pin, find_control, release_pin
from siltstone.pipeline.errors import PipelineError, SnapshotExpired
from siltstone.pipeline.planning.split import Lease
from siltstone.storage.clock import Clock

PINS: Final = 8
"""How many pins one driver keeps; each plan of a newer one lets go of the oldest."""
HOURS: Final = 8
BEAT_SECONDS: Final = 3.0
"""Several of these fit into the lease that a reader leaves."""
_LONGEST_MESSAGE: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("3i")
_SENT_BY: Final = getattr(socket, "SCM_CREDENTIALS", 2)
"""Linux's name for what says which user has sent a message."""

Place = tuple[str, str, str]
"""The log directory, the address that was given for the control channel, and the pin."""


def keep(lease: Lease) -> None:
    """Have a pin renewed while the parent of this process lives, if this system is Linux."""
    if sys.platform != "linux":
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        name = f"\0siltstone-pins-{os.getuid()}-{os.getppid()}"
        own.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            own.bind(name)
        except OSError:
            pass  # an earlier plan has started the program
        else:
            driver = os.pidfd_open(os.getppid())
            _start(own.fileno(), driver)
            os.close(driver)
        text = json.dumps((lease.data, lease.control, lease.pin)).encode()
        own.sendto(text, socket.MSG_DONTWAIT, name)


def _start(*descriptors: int) -> None:
    """Start the program, in a group of its own: Spark's processes end by a signal to theirs."""
    for each in descriptors:
        os.set_inheritable(each, True)
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", __name__, *map(str, descriptors)],
        {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        file_actions=[(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in range(3)],
        setpgroup=0,
    )


class Kept:
    """The pins that a driver keeps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends: dict[Place, float] = {}

    def add(self, place: Place) -> None:
        """Keep a pin from now on; with too many the oldest is left to its readers."""
        self._ends[place] = self._now() + HOURS * 3600
        for oldest in list(self._ends)[:-PINS]:
            del self._ends[oldest]

    def renew(self) -> None:
        """Renew all pins, without those whose time is over or that no longer exist. Blocks."""
        now = self._now()
        self._ends = {place: end for place, end in self._ends.items() if now < end}
        for place in list(self._ends):
            data, control, pin = place
            try:
                extend_pin(find_control(Path(data), control), pin)
            except SnapshotExpired:
                del self._ends[place]
            except PipelineError:
                pass  # the broker may answer again

    def release(self) -> None:
        """Release all pins. Blocks."""
        for data, control, pin in self._ends:
            with suppress(PipelineError):
                release_pin(find_control(Path(data), control), pin)


def main(pins: str, driver: str) -> None:
    """Renew the pins that arrive at a socket, until the process of a descriptor ends."""
    clock = Clock()
    kept = Kept(clock.monotonic)
    ended = int(driver)
    with socket.socket(fileno=int(pins)) as own:
        events = select.poll()  # their numbers are those of the process before, perhaps thousands
        for each in (own.fileno(), ended):
            events.register(each, select.POLLIN)
        beat = 0.0
        while True:
            left = max(0.0, beat - clock.monotonic())
            ready = {each for each, _ in events.poll(left * 1000)}
            if own.fileno() in ready:
                receive(own, kept)
            elif ready:
                break
            if clock.monotonic() >= beat:
                kept.renew()
                beat = clock.monotonic() + BEAT_SECONDS
    kept.release()


def receive(own: socket.socket, kept: Kept) -> None:
    """Take what this user has sent: others could have the token sent to an address of theirs."""
    room = socket.CMSG_SPACE(_CREDENTIALS.size)
    text, about, _, _ = own.recvmsg(_LONGEST_MESSAGE, room)
    senders = [_CREDENTIALS.unpack(data)[1] for _, kind, data in about if kind == _SENT_BY]
    if senders == [os.getuid()]:
        data, control, pin = json.loads(text)
        kept.add((data, control, pin))


if __name__ == "__main__":
    main(*sys.argv[1:])
