"""What is remembered of the last pass over a partition."""

from typing import NamedTuple


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
