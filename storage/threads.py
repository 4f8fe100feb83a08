"""The time that a thread runs before a waiting one gets its turn: a hint to the scheduler.

Since Linux 6.12 a thread may say how long its turns should be (``sched_setattr`` with a runtime
under the normal policy, which needs no privilege). Of two threads the one with shorter turns runs
as soon as it wakes. Without the hint it waits until the other's turn is over, which is checked once
a tick: 4 ms at 250 Hz. Older kernels accept the call and change nothing. ``sched_setattr`` is not
in ``os``, so ctypes calls it; where its number is not known nothing happens.
"""

import os
from struct import Struct
from typing import Final

SHORT_NS: Final = 100_000
"""The shortest possible: for a thread that others wait for and that runs in short bursts."""
LONG_NS: Final = 10_000_000
"""Longer than the default on any machine, which is up to 2.8 ms."""

_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES: Final = Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, ...


def ask_for_slice(nanoseconds: int, thread_id: int = 0) -> bool:
    """Ask for turns of some length for a thread of this process; true if the kernel took the hint.

    0 is the calling thread. A thread to which an operator gave another policy keeps it.
    """
    number = _SET_ATTRIBUTES.get(os.uname().machine)
    if number is None or os.sched_getscheduler(thread_id) != os.SCHED_OTHER:
        return False
    import ctypes  # noqa: PLC0415  # 1 MiB and 5 ms that an idle broker never needs

    nice = os.getpriority(os.PRIO_PROCESS, thread_id)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    failed: int = ctypes.CDLL(None).syscall(number, thread_id, attributes, 0)
    return not failed
