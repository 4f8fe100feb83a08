"""Pins with their leases and limits, for readers of segment files (docs/decisions/0011-pins.md).

A pin freezes all its logs in one step of the loop and links their files on a thread of its own, so
that it never waits for work that waits for frozen names.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from siltstone.broker.process.tasks import Tasks, to_its_end
from siltstone.config.server import ServerConfig
from siltstone.protocol.errors import KafkaError
from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.log import pin_links
from siltstone.storage.log.frozen import FrozenLog
from siltstone.storage.log.log import Log
from siltstone.storage.log.pin_links import PinnedPartition
from siltstone.storage.randomness import random_bytes

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""How often leases are looked at, and what pins keep on the disk is measured."""
SHORTEST_LEASE_MS = 1000
_ID_BYTES = 8

_logger = logging.getLogger(__name__)


class PinRefused(Exception):  # noqa: N818  # an answer, not a fault of the broker
    """A pin is refused or has ended; ``status`` is the status for HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(slots=True, kw_only=True)
class Pin:
    """One pin. ``held_bytes`` is the size of the files that only pins keep, as last measured."""

    pin_id: str
    holder: str
    created_ms: int
    lease_ms: int
    expires: float  # a time of the clock's monotonic()
    directories: tuple[Path, ...]
    partitions: tuple[PinnedPartition, ...] = ()
    size: int = 0
    held_bytes: int = 0
    is_linked: bool = False


@dataclass(slots=True)
class PinCounts:
    """The outcome of pins since the start."""

    created: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # reason: released, expired, over-budget
    refused: int = 0


class PinRoom:
    """All pins (loop only). They exist in memory and in ``.pins``, and end with the broker.

    There may be ``pins.max.count`` pins at once. The files that only pins keep on the disk may have
    ``pins.max.bytes``; above that the oldest pin ends, and its reader learns so when it renews the
    lease.
    """

    def __init__(
        self,
        server: Callable[[], ServerConfig],
        clock: Clock,
        find_first_dirty: Callable[[Log], int] = lambda _: 0,
    ) -> None:
        self.counts = PinCounts()
        self._server = server
        self._clock = clock
        self._find_first_dirty = find_first_dirty
        self._pins: dict[str, Pin] = {}  # the oldest first
        self._some = asyncio.Event()
        self._linking = Tasks()
        self._thread = threads.new_pool(1, "pins")
        self._closed = False

    def all_pins(self) -> list[Pin]:
        """Return all pins, the oldest first."""
        return [pin for pin in self._pins.values() if pin.is_linked]

    def seconds_left(self, pin: Pin) -> float:
        """Return how many seconds a lease lasts unless it is renewed."""
        return max(0.0, pin.expires - self._clock.monotonic())

    async def create(self, logs: Iterable[Log], lease_ms: int, holder: str) -> Pin:
        """Pin all the logs as they are at this instant.

        Raises:
            PinRefused: A limit is reached, or the disk does not take the links.
            KafkaError: A log no longer exists, or is damaged.
        """
        self._check_room()
        frozen = self._freeze(logs)
        pin = Pin(
            pin_id=random_bytes(_ID_BYTES).hex(),
            holder=holder,
            created_ms=self._clock.now_ms(),
            lease_ms=self._bounded(lease_ms),
            expires=0.0,
            directories=tuple(dict.fromkeys(each.directory for each in frozen)),
        )
        self._pins[pin.pin_id] = pin
        # The pin is completed even if the client disconnects; then it ends with its lease.
        await to_its_end(
            self._linking.start(self._link(pin, frozen), "pin"), PinRefused, KafkaError
        )
        return pin

    async def _link(self, pin: Pin, frozen: Sequence[FrozenLog]) -> None:
        try:
            pin.partitions = await self._do(partial(pin_links.link, pin.pin_id, frozen))
        except Exception as error:
            del self._pins[pin.pin_id]
            self.counts.refused += 1
            if not isinstance(error, OSError):
                raise
            raise PinRefused(
                503,
                f"the files cannot be pinned ({error}): the log directory needs a file system "
                "with hard links and room for names; read by the fetch transport instead",
            ) from error
        pin.size = sum(partition.size for partition in pin.partitions)
        pin.expires = self._clock.monotonic() + pin.lease_ms / 1000
        pin.is_linked = True
        self.counts.created += 1
        self._some.set()
        _logger.info(
            "pin created id=%s holder=%r partitions=%d segments=%d bytes=%d lease_ms=%d",
            pin.pin_id,
            pin.holder,
            len(pin.partitions),
            sum(len(partition.segments) for partition in pin.partitions),
            pin.size,
            pin.lease_ms,
        )

    def renew(self, pin_id: str, lease_ms: int | None = None) -> Pin:
        """Begin the lease of a pin again, with another length if one is given.

        Raises:
            PinRefused: The pin has ended.
        """
        pin = self._get(pin_id)
        if lease_ms is not None:
            pin.lease_ms = self._bounded(lease_ms)
        pin.expires = self._clock.monotonic() + pin.lease_ms / 1000
        return pin

    async def release(self, pin_id: str) -> None:
        """End a pin because its reader is done.

        Raises:
            PinRefused: The pin has ended.
        """
        await self._end(self._get(pin_id), "released")

    async def run(self) -> None:
        """End pins whose lease has run out, until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """End the pins whose lease has run out, and the oldest pins while pins hold too much."""
        now = self._clock.monotonic()
        for pin in self.all_pins():
            if pin.expires <= now:
                await self._end(pin, "expired")
        there = self.all_pins()
        if not there:
            self._some.clear()
            return
        await self._measure(there)
        while self.held_bytes() > self._server().pins_max_bytes:
            await self._end(there.pop(0), "over-budget")
            await self._measure(there)

    def held_bytes(self) -> int:
        """Return the last measured size of the files that only pins keep, as an upper bound."""
        return sum(pin.held_bytes for pin in self._pins.values())

    async def close(self) -> None:
        """End all pins; their readers find no files any more."""
        self._closed = True
        await self._linking.finish()
        for pin in self.all_pins():
            await self._end(pin, "stopped")
        self._thread.shutdown()

    def _check_room(self) -> None:
        server = self._server()
        fault = ""
        if self._closed:
            fault = "the broker stops"
        elif len(self._pins) >= server.pins_max_count:
            fault = f"there are {len(self._pins)} pins already, and pins.max.count is no more"
        elif self.held_bytes() > server.pins_max_bytes:
            fault = (
                f"pins keep {self.held_bytes()} bytes on the disk already, and pins.max.bytes is "
                f"{server.pins_max_bytes}"
            )
        if fault:
            self.counts.refused += 1
            raise PinRefused(
                503, f"{fault}; release one (siltstone pins shows them) or wait for its end"
            )

    def _freeze(self, logs: Iterable[Log]) -> list[FrozenLog]:
        """Freeze all logs in the order of their names, or none, at one instant: without await."""
        frozen: list[FrozenLog] = []
        try:
            frozen.extend(
                log.freeze(self._find_first_dirty(log))
                for log in sorted(logs, key=lambda log: log.topic_partition)
            )
        except BaseException:
            for each in frozen:
                each.names.release()
            raise
        return frozen

    def _bounded(self, lease_ms: int) -> int:
        longest = self._server().pins_max_lease_ms
        return min(max(lease_ms, min(SHORTEST_LEASE_MS, longest)), longest)

    def _get(self, pin_id: str) -> Pin:
        pin = self._pins.get(pin_id)
        if pin is None or not pin.is_linked:
            raise PinRefused(
                410,
                f"there is no pin {pin_id}: it was released, its lease ran out, it kept more than "
                "pins.max.bytes, or the broker was started again; pin again and plan again",
            )
        return pin

    async def _end(self, pin: Pin, why: str) -> None:
        if self._pins.pop(pin.pin_id, None) is None:
            return  # another request ended the pin while this one waited for the disk
        self.counts.ended[why] += 1
        level = logging.INFO if why in {"released", "stopped"} else logging.WARNING
        _logger.log(level, "pin ended id=%s holder=%r why=%s", pin.pin_id, pin.holder, why)
        try:
            await self._do(partial(pin_links.remove, pin.pin_id, pin.directories))
        except OSError as error:
            _logger.warning("links of a pin are left id=%s error=%s", pin.pin_id, error)
        if not self._pins:
            await self._do(partial(pin_links.remove_empty, pin.directories))

    async def _measure(self, there: Sequence[Pin]) -> None:
        held = await self._do(partial(pin_links.held_bytes, [pin.partitions for pin in there]))
        for pin, size in zip(there, held, strict=True):
            pin.held_bytes = size

    async def _do(self, work: Callable[[], T]) -> T:
        """Run work on the pins' thread; the work is completed even if the client disconnects."""
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(work)))
