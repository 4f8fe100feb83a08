"""The last pass over a partition, as it is remembered."""

from typing import Any, NamedTuple


class Pass(NamedTuple):
    """The facts of a partition's last pass that an explanation needs.

    Times are in ms since the epoch. ``map_full`` says that the map was full before the end of the
    dirty part. ``next_horizon_ms`` is when the first tombstone or marker that it kept may go.
    """

    started_ms: int
    seconds: float
    first_dirty_offset: int
    end_offset: int
    bytes_read: int
    bytes_written: int
    records_dropped: int
    map_full: bool
    map_keys: int
    next_horizon_ms: int | None


def last_pass_of(event: dict[str, Any]) -> Pass | None:
    """Return the pass of an event of the history, None if it is another kind of event."""
    if event.get("outcome") != "cleaned":
        return None
    try:
        return Pass(
            started_ms=event["started_ms"],
            seconds=event["seconds"],
            first_dirty_offset=event["first_dirty_offset"],
            end_offset=event["end_offset"],
            bytes_read=event["bytes_in"],
            bytes_written=event["bytes_out"],
            records_dropped=sum(event["records_dropped"].values()),
            map_full=event["map_full"],
            map_keys=event["map_keys"],
            next_horizon_ms=event["next_horizon_ms"],
        )
    except (KeyError, TypeError, AttributeError):  # of another version of this program
        return None
