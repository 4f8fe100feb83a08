"""Builds the cleaner's threads and the objects that they share; `broker.server` imports it late."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cleaner.explaining.last_pass import Predictions
from siltstone.cleaner.history.figures import CleanerFigures
from siltstone.cleaner.history.history import History
from siltstone.cleaner.manager import CleanerManager
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.cleaner_thread import CleanerServices
from siltstone.cleaner.threads.pool import CleanerPool
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.server import ServerConfig
from siltstone.storage import threads
from siltstone.storage.clock import Clock

if TYPE_CHECKING:
    from siltstone.cleaner.one_pass.cleaner import Cleaner


def make_pool(
    manager: CleanerManager, clock: Clock, server: ServerConfig, directories: Iterable[Path] = ()
) -> CleanerPool:
    """Return the pool, not yet started, with the history of the log directories. Blocks."""
    settings = CleanerSettings.of(server)
    throttle = Throttle(clock, settings.bytes_per_second)

    def make_cleaner(settings: CleanerSettings) -> "Cleaner":
        from siltstone.cleaner.one_pass.cleaner import Cleaner  # noqa: PLC0415  # in a cleaner's thread, by its first pass

        # From now on threads compete with the loop, which runs in short bursts, a pass for seconds.
        threads.ask_for_slice(threads.SHORT_NS, threads.find_main_id())
        return Cleaner.of(settings, clock, throttle)

    services = CleanerServices(
        manager=manager,
        clock=clock,
        figures=CleanerFigures(),
        history=History(),
        predictions=Predictions(),
        make_cleaner=make_cleaner,
    )
    services.history.load(directories)
    return CleanerPool(services, throttle, settings)
