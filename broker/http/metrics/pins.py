"""The metrics of pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric, single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources
    from siltstone.broker.topics.pins import PinRoom

_ENDS = ("released", "expired", "over-budget", "stopped")


def _one(read: Callable[[PinRoom], float]) -> Reader:
    """Return a reader of one value of the pins, 0 where there is no room for them."""
    return single(lambda sources: 0 if sources.pins is None else read(sources.pins))


def _ended(sources: MetricSources) -> Iterator[Row]:
    for why in _ENDS:
        yield (why,), 0 if sources.pins is None else sources.pins.counts.ended[why]


# fmt: off
PIN_METRICS = (
    Metric("gauge", "siltstone_pins", (),
           "Pins that hold segment files for whoever reads them.",
           "`PinRoom`", _one(lambda room: len(room.all_pins()))),
    Metric("gauge", "siltstone_pinned_bytes", (),
           "Bytes of log in pins; most of them are in their logs too.",
           "`PinRoom`", _one(lambda room: sum(pin.size for pin in room.all_pins()))),
    Metric("gauge", "siltstone_pin_held_bytes", (),
           "Bytes of log that only pins keep on the disk; above pins.max.bytes pins are ended.",
           "`PinRoom`", _one(lambda room: room.held_bytes())),
    Metric("counter", "siltstone_pins_created", (),
           "Pins given since the start.",
           "`PinRoom`", _one(lambda room: room.counts.created)),
    Metric("counter", "siltstone_pins_refused", (),
           "Pins refused since the start, for a limit or the disk.",
           "`PinRoom`", _one(lambda room: room.counts.refused)),
    Metric("counter", "siltstone_pins_ended", ("why",),
           "Pins that ended since the start, by why.",
           "`PinRoom`", _ended),
)
# fmt: on
