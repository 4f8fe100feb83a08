"""What is remembered of the last pass over a partition."""

from typing import Any, NamedTuple


class Pass(NamedTuple):
    """What the next answer about a partition has to know of its last pass.

    Times are in ms since the epoch. ``map_full`` says that the offset map ended the pass before
    all of the dirty part was covered, ``next_horizon_ms`` when the first tombstone or marker that
    it kept may go.
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
    """Return the pass that an event of the history tells of, None if it tells of something else."""
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
