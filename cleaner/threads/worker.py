"""Chooses what makes the passes: the compiled core in this process, or its twin in another.

Where the core is not compiled a pass computes in Python. In a thread it would keep the GIL from the
event loop, so it then runs in `cleaner.threads.helper`, at a lower priority.
"""

from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.cleaner_thread import Worker
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core import compaction
from siltstone.storage.clock import Clock


def make_worker(settings: CleanerSettings, clock: Clock, throttle: Throttle) -> Worker:
    """Return what a cleaner thread needs for its passes."""
    if compaction.COMPILED:
        return Cleaner(
            clock=clock,
            throttle=throttle,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes,
        )
    from siltstone.cleaner.threads.helper_process import HelperProcess  # noqa: PLC0415  # and pickle, seldom needed

    return HelperProcess(settings, clock, throttle)
