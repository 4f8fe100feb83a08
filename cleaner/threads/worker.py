"""Chooses what makes the passes: kernels in this process, or the same source in a helper process.

Without compiled kernels a pass computes in Python. In a thread it would keep the GIL from the event
loop, so it then runs in `cleaner.threads.helper`, at a lower priority.
"""

from siltstone.cleaner.compiled import _kernels as kernels
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.cleaner_thread import Worker
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.storage.clock import Clock


def make_worker(settings: CleanerSettings, clock: Clock, throttle: Throttle) -> Worker:
    """Return what a cleaner thread needs for its passes."""
    if kernels.COMPILED:
        return Cleaner(
            clock=clock,
            throttle=throttle,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes,
        )
    from siltstone.cleaner.threads.helper_process import HelperProcess  # noqa: PLC0415  # and pickle, seldom needed

    return HelperProcess(settings, clock, throttle)
