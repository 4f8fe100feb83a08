"""How long a thread runs before one that waits has its turn: a hint to the scheduler.

Since Linux 6.12 a thread may say how long its turns should be (``sched_setattr`` with a runtime
under the normal policy, for which nobody needs a privilege). Of two, the one that asks for shorter
turns runs as soon as it wakes; otherwise it waits until the other's turn is over, which is looked
at once a tick: 4 ms at 250 Hz. Older kernels take the call and change nothing. ``sched_setattr``
is not in ``os``: ctypes calls it, and where its number is not known nothing happens.
"""

import os
from struct import Struct
from typing import Final

SHORT_NS: Final = 100_000
"""The shortest there is: for a thread that others wait for, and that runs in short bursts."""
LONG_NS: Final = 10_000_000
"""Longer than what a thread gets that does not ask, on any machine: up to 2.8 ms."""

_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES: Final = Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, ...


def ask_for_slice(nanoseconds: int, thread_id: int = 0) -> bool:
    """Ask for turns of some length for a thread of this process; true if the kernel took the hint.

    0 is the calling thread. One that an operator has given another policy keeps it.
    """
    number = _SET_ATTRIBUTES.get(os.uname().machine)
    if number is None or os.sched_getscheduler(thread_id) != os.SCHED_OTHER:
        return False
    import ctypes  # noqa: PLC0415  # 1 MiB and 5 ms that an idle broker never needs

    nice = os.getpriority(os.PRIO_PROCESS, thread_id)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    failed: int = ctypes.CDLL(None).syscall(number, thread_id, attributes, 0)
    return not failed
