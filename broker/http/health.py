"""Liveness: the loop turns and the disks accept writes (``/healthz``).

Any answer shows that the loop turns; the lag of its timers shows how well. Each disk is tested with
a few bytes and an fsync on an io thread, one test at a time: a disk that hangs blocks one thread,
not the loop.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from siltstone.broker.http.values import HttpRequest, HttpResponse, text
from siltstone.broker.process.histogram import Histogram
from siltstone.broker.process.io import IoThreads
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.directory.log_directory import LogDirectory, remedy_for
from siltstone.storage.log.loading import SetAside
from siltstone.storage.topic_partition import TopicPartition

TICK_SECONDS = 0.1
DISK_SECONDS = 5.0
DISK_CACHE_SECONDS = 5.0
HEALTH_FILE = ".siltstone-health"
_MEANWHILE = "until then produce requests are refused, and fetches go on"
_TICKS_REMEMBERED = 600
_MAX_TOLD = 100


class LoopWatch:
    """Measures how late the event loop fires a timer, ten times a second (loop only)."""

    def __init__(self, clock: Clock) -> None:
        self.lag = Histogram()
        self._clock = clock
        self._recent = [0.0] * _TICKS_REMEMBERED
        self._ticks = 0

    @property
    def worst_recent(self) -> float:
        """The greatest lag of about the last minute, in seconds."""
        return max(self._recent)

    def record(self, lag: float) -> None:
        """Count one lag in seconds; a timer that fired early was on time."""
        lag = max(0.0, lag)
        self.lag.observe(lag)
        self._recent[self._ticks % _TICKS_REMEMBERED] = lag
        self._ticks += 1

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self.record(self._clock.monotonic() - before - TICK_SECONDS)


class DiskCheck:
    """Tests whether a log directory can be written; keeps the answer for seconds (loop only).

    Invariant: at most one test is under way. A test that exceeds the time limit is reported as a
    fault until the kernel returns.
    """

    def __init__(
        self,
        directory: LogDirectory,
        io: IoThreads,
        clock: Clock,
        limit_seconds: float = DISK_SECONDS,
    ) -> None:
        self.directory = directory
        self._io = io
        self._clock = clock
        self._limit_seconds = limit_seconds
        self.remark: str | None = None  # a problem that no restart would solve
        self._try: asyncio.Future[None] | None = None
        self._began = 0.0

    async def find_fault(self) -> str | None:
        """Return what is wrong with the disk in a sentence, or None.

        A full disk is not a fault here: an orchestrator would restart a broker that still serves
        fetches, and the broker could not start again. `remark` reports it, and the broker is not
        ready, since the probe cannot append.
        """
        path = self.directory.path
        if self._try is None or self._is_stale(self._try):
            self._began = self._clock.monotonic()
            self._try = self._io.run(write_and_sync, path)
        done, _ = await asyncio.wait({self._try}, timeout=self._limit_seconds)
        if not done:
            return (
                f"{path} did not take a few bytes within {self._limit_seconds:g} s; "
                "look at the disk below it"
            )
        if self._try.cancelled():
            return f"{path} was not tried: the broker is stopping"
        error = self._try.exception()
        self.remark = None
        if error is None:
            # A few bytes may fit where no record does, or after a failure until the restart.
            if self.directory.trouble is not None:
                self.remark = f"log directory {path} {self.directory.trouble}; {_MEANWHILE}"
            return None
        remedy = remedy_for(error) if isinstance(error, OSError) else None
        sentence = f"log directory {path} cannot be written: {error}"
        if remedy is None:
            return f"{sentence}; check the disk and restart the broker"
        self.remark = f"{sentence}; {remedy}; {_MEANWHILE}"
        return None

    def _is_stale(self, last: asyncio.Future[None]) -> bool:
        return last.done() and self._clock.monotonic() - self._began >= DISK_CACHE_SECONDS


def find_warning(directory: LogDirectory) -> str | None:
    """Return a sentence about a coming problem of a log directory, or None."""
    warning = directory.warning
    return None if warning is None else f"log directory {directory.path} {warning}"


def write_and_sync(directory: Path) -> None:
    """Write a few bytes into a file of our own and wait for the disk. Blocks.

    Raises:
        OSError: the disk is full, read-only or broken.
    """
    file = files.create_file(directory / HEALTH_FILE)
    try:
        files.write_all(file, b"siltstone\n", 0)
        files.fsync(file)
    finally:
        files.close(file)


class Health:
    """The ``/healthz`` page."""

    def __init__(
        self,
        loop_watch: LoopWatch,
        disks: Iterable[DiskCheck],
        find_aside: Callable[[], Mapping[TopicPartition, SetAside]] = dict,
    ) -> None:
        self._loop_watch = loop_watch
        self._disks = tuple(disks)
        self._find_aside = find_aside

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        """Answer 200 unless a disk is broken, else 503 with a sentence for each that is.

        Partitions that are set aside are named, but are no fault: a restart would not help.
        """
        found = await asyncio.gather(*(disk.find_fault() for disk in self._disks))
        faults = [fault for fault in found if fault is not None]
        if faults:
            return text(503, "\n".join(faults))
        worst_ms = self._loop_watch.worst_recent * 1000
        remarks = [disk.remark for disk in self._disks if disk.remark is not None]
        count = len(self._disks)
        sentence = (
            f"alive: {count - len(remarks)} of {count} log directories take writes, "
            f"the event loop was at most {worst_ms:.1f} ms late in the last minute"
        )
        warnings = (find_warning(disk.directory) for disk in self._disks)
        remarks += [warning for warning in warnings if warning is not None]
        remarks += [
            f"partition {name} is set aside and not served: {aside.reason}"
            for name, aside in itertools.islice(sorted(self._find_aside().items()), _MAX_TOLD)
        ]
        return text(200, "\n".join([sentence, *remarks]))
