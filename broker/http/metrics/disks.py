"""The metrics of the disks below the log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric
from siltstone.storage.directory.room import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siltstone.broker.http.metrics.metric import Reader, Row
    from siltstone.broker.http.metrics.sources import MetricSources
    from siltstone.storage.directory.room import Room

_DIRECTORY = ("logdirectory",)


def _each(read: Callable[[Room], float | None]) -> Reader:
    """Return a reader of one value of each log directory; None is left out."""

    def rows(sources: MetricSources) -> Iterator[Row]:
        for directory, room in sources.disks().items():
            value = read(room)
            if value is not None and room.total_bytes >= 0:
                yield (directory,), value

    return rows


# fmt: off
DISK_METRICS = (
    Metric("gauge", "siltstone_log_dir_free_bytes", _DIRECTORY,
           "Bytes that are free for the broker on the disk of the log directory.",
           "`LogDirectory.room`", _each(lambda room: room.free_bytes)),
    Metric("gauge", "siltstone_log_dir_total_bytes", _DIRECTORY,
           "Bytes of the disk of the log directory.",
           "`LogDirectory.room`", _each(lambda room: room.total_bytes)),
    Metric("gauge", "siltstone_log_dir_reserve_bytes", _DIRECTORY,
           "log.dirs.reserve.bytes: with less free, produce requests are refused.",
           "`LogDirectory.room`", _each(lambda room: room.reserve_bytes)),
    Metric("gauge", "siltstone_log_dir_short", _DIRECTORY,
           "1 if produce requests are refused since less than the reserve is free.",
           "`LogDirectory.room`", _each(lambda room: int(room.level is Level.SHORT))),
    Metric("gauge", "siltstone_log_dir_scarce", _DIRECTORY,
           "1 if less than twice the reserve is free.",
           "`LogDirectory.room`", _each(lambda room: int(room.level is not Level.PLENTY))),
    Metric("gauge", "siltstone_log_dir_seconds_left", _DIRECTORY,
           "Seconds until only the reserve is left, if room goes on going as in the last ten "
           "minutes; absent while it does not.",
           "`LogDirectory.room`", _each(lambda room: room.seconds_left)),
)
# fmt: on
