"""Finds starts and ends of logs and leader epochs, for ListOffsets and OffsetForLeaderEpoch.

The columns are in `protocol.messages.columns`.
"""

from typing import TYPE_CHECKING

from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell
from siltstone.storage.log.end cimport LogEnd
from siltstone.storage.log.reads cimport LogParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.protocol.messages.list_offsets import ListOffsetsPartition
    from siltstone.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition
    from siltstone.storage.log.log import Log

include "columns.pxi"  # the build makes it from protocol/messages/columns.py

LATEST = -1
"""As the timestamp in a ListOffsets request."""
EARLIEST = -2
cdef long long _LATEST = LATEST
cdef long long _EARLIEST = EARLIEST


def are_distinct(partitions: Sequence[ListOffsetsPartition]) -> bool:
    """Tell whether no partition is named twice."""
    cdef Grid wanted = grid_of(partitions, ASKED_COLUMNS)
    cdef Py_ssize_t place, count = len(wanted)
    cdef long long number, before = -1
    for place in range(count):
        number = cell_of(wanted, place, PARTITION)
        if number <= before:  # not in ascending order, which clients use
            return len({cell_of(wanted, each, PARTITION) for each in range(count)}) == count
        before = number
    return True


def list_ends(
    partitions: Sequence[ListOffsetsPartition], tuple logs: Sequence[Log | None], bint is_committed
) -> tuple[Grid, list[int]]:
    """Return the answers of a ListOffsets by partition, and the places that have no answer yet.

    The places without an answer are the partitions to refuse, and those that ask for something else
    than the latest or the earliest offset.
    """
    cdef Grid wanted = grid_of(partitions, ASKED_COLUMNS)
    cdef Py_ssize_t place, count = len(wanted)
    cdef Grid rows = Grid(count, END_COLUMNS)
    cdef list left = []
    cdef LogEnd end
    cdef LogParts log
    cdef long long number, timestamp, offset, epoch
    for place in range(count):
        number = cell_of(wanted, place, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        end = None if log is None else log.end
        if end is None or not is_of_now(end, cell_of(wanted, place, LEADER_EPOCH)):
            left.append(place)
            continue
        timestamp = cell_of(wanted, place, QUESTION)
        if timestamp == _LATEST:
            offset = end.stable_end() if is_committed else end.log_end_offset
            epoch = end.leader_epoch
        elif timestamp == _EARLIEST:
            offset = end.log_start_offset
            epoch = log.epochs.epoch_of(offset)
        else:
            left.append(place)
            continue
        put_cell(rows, place, PARTITION, number)
        put_cell(rows, place, END_TIMESTAMP, -1)
        put_cell(rows, place, END_OFFSET, offset)
        put_cell(rows, place, END_EPOCH, epoch)
    return rows, left


def list_epoch_ends(
    partitions: Sequence[OffsetForLeaderPartition], tuple logs: Sequence[Log | None]
) -> tuple[Grid, list[int]]:
    """Return the answers of an OffsetForLeaderEpoch, and the places of partitions to refuse."""
    cdef Grid wanted = grid_of(partitions, ASKED_COLUMNS)
    cdef Py_ssize_t place, count = len(wanted)
    cdef Grid rows = Grid(count, EPOCH_COLUMNS)
    cdef list left = []
    cdef LogEnd end
    cdef LogParts log
    cdef long long number, epoch, end_offset
    for place in range(count):
        number = cell_of(wanted, place, PARTITION)
        log = logs[number] if 0 <= number < len(logs) else None
        end = None if log is None else log.end
        if end is None or not is_of_now(end, cell_of(wanted, place, LEADER_EPOCH)):
            left.append(place)
            continue
        epoch, end_offset = log.epochs.end_offset_for(
            cell_of(wanted, place, QUESTION), end.log_end_offset
        )
        put_cell(rows, place, EPOCH_PARTITION, number)
        put_cell(rows, place, EPOCH, epoch)
        put_cell(rows, place, EPOCH_END, end_offset)
    return rows, left


cdef inline bint is_of_now(LogEnd end, long long epoch) noexcept:
    """Tell whether a leader epoch is the current one, or is not given."""
    return epoch == -1 or epoch == end.leader_epoch
