"""The metrics of disks: their room, pins that hold files, and partitions that move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric, Reader, Row, each_of, one_of
from siltstone.broker.topics.moves.manager import LogDirMoves
from siltstone.broker.topics.scrub import MAX_TOLD
from siltstone.storage.directory.room import Level, Room

if TYPE_CHECKING:
    from siltstone.broker.http.metrics.metric_sources import MetricSources

_DIRECTORY = ("logdirectory",)


def _each(read: Callable[[Room], float | None]) -> Reader:
    """Return a reader of one value for each log directory; a value of None is left out."""

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
           "minutes; absent while it does not, for three minutes, and where others write it.",
           "`LogDirectory.room`", _each(lambda room: room.seconds_left)),
)
# fmt: on


_ENDS = ("released", "expired", "over-budget", "stopped")


_of_pins = one_of(lambda sources: sources.pins)


def _pins_ended(sources: MetricSources) -> dict[str, int]:
    return {why: 0 if sources.pins is None else sources.pins.counts.ended[why] for why in _ENDS}


# fmt: off
PIN_METRICS = (
    Metric("gauge", "siltstone_pins", (),
           "Pins that hold segment files for a reader.",
           "`PinRoom`", _of_pins(lambda room: len(room.all_pins()))),
    Metric("gauge", "siltstone_pinned_bytes", (),
           "Bytes of log in pins; most of them are in their logs too.",
           "`PinRoom`", _of_pins(lambda room: sum(pin.size for pin in room.all_pins()))),
    Metric("gauge", "siltstone_pin_held_bytes", (),
           "Bytes of log that only pins keep on the disk; above pins.max.bytes pins are ended.",
           "`PinRoom`", _of_pins(lambda room: room.held_bytes())),
    Metric("counter", "siltstone_pins_created", (),
           "Pins given since the start.",
           "`PinRoom`", _of_pins(lambda room: room.counts.created)),
    Metric("counter", "siltstone_pins_refused", (),
           "Pins refused since the start, for a limit or the disk.",
           "`PinRoom`", _of_pins(lambda room: room.counts.refused)),
    Metric("counter", "siltstone_pins_ended", ("why",),
           "Pins that ended since the start, by why.",
           "`PinRoom`", each_of(_pins_ended)),
)
# fmt: on


_of_scrub = one_of(lambda sources: sources.scrub)


def _last_round(sources: MetricSources) -> Iterator[Row]:
    if sources.scrub is not None and sources.scrub.last_round_ms:
        yield (), sources.scrub.last_round_ms / 1000


def _damaged(sources: MetricSources) -> Iterator[Row]:
    found = {} if sources.scrub is None else sources.scrub.find_damage()
    for (topic, partition), sentences in sorted(found.items())[:MAX_TOLD]:
        yield (topic, str(partition)), len(sentences)


# fmt: off
SCRUB_METRICS = (
    Metric("counter", "siltstone_scrub_bytes", (),
           "Bytes of closed segments that were read by log.scrub.bytes.per.second.",
           "`Scrub`", _of_scrub(lambda scrub: scrub.throttle.total_bytes)),
    Metric("gauge", "siltstone_scrub_last_round_timestamp_seconds", (),
           "When all closed segments had been read the last time, in seconds since the epoch.",
           "`Scrub`", _last_round),
    Metric("gauge", "siltstone_scrub_damaged_segments", ("topic", "partition"),
           "Closed segments that are damaged or cannot be read, of at most a hundred partitions.",
           "`Scrub`", _damaged),
)
# fmt: on


_MANAGER = "kafka_server_replicaalterlogdirsmanager"
_CLIENT = ("clientid",)
_CLIENT_ID = "ReplicaAlterLogDirs"


def _of_client(read: Callable[[LogDirMoves], float]) -> Reader:
    """Return a reader of one value with Kafka's label for the copier; 0 if nothing is copied."""
    return each_of(
        lambda sources: {_CLIENT_ID: 0 if sources.moves is None else read(sources.moves)}
    )


_of_moves = one_of(lambda sources: sources.moves)


# fmt: off
MOVE_METRICS = (
    Metric("gauge", f"{_MANAGER}_maxlag", _CLIENT,
           "Offsets that the copy lacks that is farthest behind; 0 if no partition moves.",
           "`LogDirMoves`", _of_client(lambda moves: moves.max_lag)),
    Metric("gauge", f"{_MANAGER}_failedpartitionscount", _CLIENT,
           "Partitions whose last move was given up; the log has the reason.",
           "`LogDirMoves`", _of_client(lambda moves: len(moves.counts.failed))),
    Metric("gauge", "siltstone_log_dir_moves", (),
           "Partitions that move to another log directory, or wait for that.",
           "`LogDirMoves`", _of_moves(len)),
    Metric("counter", "siltstone_log_dir_moves_done", (),
           "Partitions that have moved since the start.",
           "`LogDirMoves`", _of_moves(lambda moves: moves.counts.done)),
)
# fmt: on
