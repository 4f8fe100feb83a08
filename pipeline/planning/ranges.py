"""From options to offsets: where reading each partition begins and ends.

Offsets by time come from a `Lookup`: the files, or ListOffsets of a broker without visible files.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from siltstone.pipeline.errors import BadOption, DataLost
from siltstone.pipeline.options import EARLIEST, LATEST, Offsets, ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.planning.segments import SegmentView
from siltstone.pipeline.stores import open_store
from siltstone.storage.topic_partition import TopicPartition

Lookup = Callable[[PinnedPartition, int], int | None]
"""The offset of the first record at or after a time in ms, or None."""


class OffsetRange(NamedTuple):
    """Offsets from ``start`` to below ``end``."""

    start: int
    end: int


def resolve(
    view: Manifest, options: ReadOptions, lookup: Lookup
) -> dict[TopicPartition, OffsetRange]:
    """Return the range to read of each partition of a view.

    Raises:
        BadOption: the options name other partitions, or no record is as late as they say.
        DataLost: offsets do not exist, and failOnDataLoss is true.
    """
    _check_named(view, options)
    ranges = {}
    for partition in view.partitions:
        start = _start(partition, options, lookup)
        end = min(_end(partition, options, lookup), last_offset(partition, options))
        ranges[partition.topic_partition] = OffsetRange(start, max(start, end))
    return ranges


def last_offset(partition: PinnedPartition, options: ReadOptions) -> int:
    """Return the offset at which readers of this isolation level end."""
    return partition.last_stable_offset if options.is_committed else partition.end_offset


def find_in_files(partition: PinnedPartition, timestamp: int) -> int | None:
    """Return the offset of the first record at or after a time. Reads the files."""
    store, folder = open_store(partition.folder)
    for segment in partition.segments:
        view = SegmentView(store, folder, segment)
        try:
            largest = view.largest_timestamp()
            if largest is None or largest >= timestamp:
                found = view.find_timestamp(timestamp, partition.log_start_offset)
                if found is not None:
                    return found if found < partition.end_offset else None
        finally:
            view.close()
    return None


def check_start(partition: PinnedPartition, offset: int, *, fails: bool) -> int:
    """Return the offset to begin at: the requested one, or the nearest that exists.

    Raises:
        DataLost: the offset no longer exists, or not yet, and ``fails`` is true.
    """
    first, end = partition.log_start_offset, partition.end_offset
    if first <= offset <= end:
        return offset
    if fails:
        what = "is gone" if offset < first else "does not exist yet"
        raise DataLost(
            f"offset {offset} of {partition.topic_partition} {what}: the log has {first} to {end}; "
            "begin elsewhere, or set failOnDataLoss=false to go on with what is left"
        )
    return first if offset < first else end


def _start(partition: PinnedPartition, options: ReadOptions, lookup: Lookup) -> int:
    key = partition.topic_partition
    timestamp = options.starting_timestamp  # a timestamp wins, as in Spark's own source
    if timestamp is None:
        timestamp = options.starting_offsets_by_timestamp.get(key)
    if timestamp is not None:
        found = lookup(partition, timestamp)
        if found is None and options.by_timestamp_strategy == "error":
            raise BadOption(
                f"no record of {key} is at or after the starting time {timestamp}; set "
                "startingOffsetsByTimestampStrategy=latest to begin at its end"
            )
        return partition.end_offset if found is None else found
    offset = _explicit(options.starting_offsets, key, EARLIEST, "startingOffsets")
    if offset == EARLIEST:
        return partition.log_start_offset
    if offset == LATEST:
        return last_offset(partition, options)
    return check_start(partition, offset, fails=options.fail_on_data_loss)


def _end(partition: PinnedPartition, options: ReadOptions, lookup: Lookup) -> int:
    key = partition.topic_partition
    timestamp = options.ending_timestamp
    if timestamp is None:
        timestamp = options.ending_offsets_by_timestamp.get(key)
    if timestamp is not None:
        found = lookup(partition, timestamp)
        return partition.end_offset if found is None else found
    offset = _explicit(options.ending_offsets, key, LATEST, "endingOffsets")
    if offset == EARLIEST:
        return partition.log_start_offset
    if offset == LATEST:
        return partition.end_offset
    return check_start(partition, offset, fails=options.fail_on_data_loss)


def _explicit(offsets: Offsets, key: TopicPartition, default: int, name: str) -> int:
    if not isinstance(offsets, dict):
        return offsets
    if key in offsets:
        return offsets[key]
    if key.topic in {each.topic for each in offsets}:
        raise BadOption(f"{name} says nothing of {key}; give every partition of a topic an offset")
    return default


def _check_named(view: Manifest, options: ReadOptions) -> None:
    there = {partition.topic_partition for partition in view.partitions}
    for name, offsets in (
        ("startingOffsets", options.starting_offsets),
        ("endingOffsets", options.ending_offsets),
        ("startingOffsetsByTimestamp", options.starting_offsets_by_timestamp),
        ("endingOffsetsByTimestamp", options.ending_offsets_by_timestamp),
    ):
        missing = _missing(offsets, there) if isinstance(offsets, dict) else []
        if missing:
            raise BadOption(f"{name} names {missing[0]}, which is not among what is read")


def _missing(named: Iterable[TopicPartition], there: set[TopicPartition]) -> list[TopicPartition]:
    return sorted(set(named) - there)
