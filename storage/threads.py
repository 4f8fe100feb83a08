"""The seam of threads: starting them, waiting for each other, and their priorities.

No other module of the daemon asks the system for threads, so that a simulator can run one thread at
a time. Other modules look the names up here at each call (`threads.Lock()`) and keep none of them.
Before a simulator creates a broker, it replaces names of this module by its own objects of the same
shape. The lock of a log is compiled, see `siltstone.storage.log_lock`.

Times are seconds. Calls that block wait without the GIL, and only Python's own signals end a wait.
"""

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from struct import Struct
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Lock = threading.Lock
"""A lock that one thread has at a time, not reentrant: ``with``, or ``acquire`` and ``release``.

``acquire(blocking=False)`` returns False where another thread has it.
"""
Condition = threading.Condition
"""A lock, or one that is handed in, with ``wait_for(predicate)`` and ``notify_all()`` inside it."""
Event = threading.Event
"""A flag that is down at first: ``set``, ``clear``, ``is_set``; ``wait(seconds)`` returns it."""
Queue = queue.SimpleQueue
"""A line without a bound: ``put`` never waits, ``get`` waits for the next; ``qsize`` is a guess."""
Thread = threading.Thread
"""A thread by `new_thread`: ``start``, ``join(seconds)``, ``is_alive``, ``ident``, ``native_id``.

``ident`` is None before it has started; ``native_id`` is the number that the system has for it.
"""
Timer = threading.Timer
"""``Timer(seconds, function, arguments)`` calls late, on a thread of its own, unless ``cancel``."""
Failed = threading.ExceptHookArgs
"""An error that ended a thread: ``thread`` or None, ``exc_type``, ``exc_value`` or None."""


class Pool(ThreadPoolExecutor):
    """Threads by `new_pool`: ``submit`` returns a future, ``shutdown`` waits for what runs."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread call a function; return the future of its result.

        Python's executor queues a call before it starts a thread for it. So a thread waits with
        each call until it is accepted.

        Raises:
            RuntimeError: The system has no thread for the call, which is never made; or the pool
                is shut down.
        """
        gate = threading.Lock()
        refused = True

        def call() -> T:
            with gate:
                if refused:  # nobody has the future
                    raise RuntimeError("call was refused")
            return fn(*args, **kwargs)

        with gate:
            future = super().submit(call)
            refused = False
        return future


def new_thread(name: str, run: Callable[..., object], *arguments: object) -> Thread:
    """Return a thread that has not started; it does not keep the process from ending."""
    return threading.Thread(target=run, args=arguments, name=name, daemon=True)


def start_threads(
    name: str, count: int, run: Callable[..., object], *arguments: object
) -> list[Thread]:
    """Start ``count`` threads by `new_thread`, or as many as the system has.

    Raises:
        RuntimeError: It has none.
    """
    started: list[Thread] = []
    for number in range(count):
        thread = new_thread(f"{name}-{number}", run, *arguments)
        try:
            thread.start()
        except RuntimeError:
            if not started:
                raise
            break
        started.append(thread)
    return started


def new_pool(count: int, name: str, niceness: int = 0) -> Pool:
    """Return a pool of at most ``count`` threads, each started when it is needed.

    They are called ``name_0`` and so on; ``niceness`` is that of `be_nice`. The end of the process
    waits for work that runs.
    """
    start = partial(be_nice, niceness) if niceness else None
    return Pool(count, thread_name_prefix=name, initializer=start)


def is_current(thread: Thread) -> bool:
    """Tell whether the calling thread is this one."""
    return threading.current_thread() is thread


def find_main_id() -> int:
    """Return the system's id of the thread that began the process: the loop's thread."""
    return threading.main_thread().native_id or 0


def on_failure(tell: Callable[[Failed], object]) -> None:
    """Call ``tell`` for each error that ends a thread of this process, in that thread."""
    threading.excepthook = tell


def be_nice(niceness: int) -> None:
    """Lower the priority of the calling thread alone, as Linux does; 19 is the lowest."""
    os.nice(niceness)


SHORT_NS: Final = 100_000
"""The shortest possible turn: for a thread that others wait for and that runs in short bursts."""
LONG_NS: Final = 10_000_000
"""Longer than the default on any machine, which is up to 2.8 ms."""

_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_ATTRIBUTES: Final = Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, ...


def ask_for_slice(nanoseconds: int, thread_id: int = 0) -> bool:
    """Ask for time slices of some length for a thread of this process; true if the kernel accepts.

    Since Linux 6.12 a thread may say how long its slices should be (``sched_setattr`` with a
    runtime under the normal policy, which needs no privilege). A thread that wakes then runs at
    once if its slices are shorter than those of the running thread. Otherwise it waits until that
    slice ends, which the kernel checks once a tick: every 4 ms at 250 Hz. Older kernels accept the
    call and change nothing. ``sched_setattr`` is not in ``os``, so ctypes calls it; on a processor
    for which its number is not known, nothing happens.

    Thread id 0 is the calling thread. A thread to which an operator gave another policy keeps it.
    """
    number = _SET_ATTRIBUTES.get(os.uname().machine)
    if number is None or os.sched_getscheduler(thread_id) != os.SCHED_OTHER:
        return False
    import ctypes  # noqa: PLC0415  # 1 MiB and 5 ms that an idle broker never needs

    nice = os.getpriority(os.PRIO_PROCESS, thread_id)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    failed: int = ctypes.CDLL(None).syscall(number, thread_id, attributes, 0)
    return not failed
