"""From a view and options to splits: files are cut by bytes, reads over the network by offsets.

How the files of a partition are cut is in `pipeline.planning.partition_plan`.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from siltstone.pipeline.columns import WALKED
from siltstone.pipeline.errors import DataLost, SourceUnavailable
from siltstone.pipeline.options import LAST_TIME, ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.pipeline.planning.partition_plan import PartitionPlan
from siltstone.pipeline.planning.ranges import OffsetRange, find_in_files, last_offset, resolve
from siltstone.pipeline.planning.split import Lease, Rules, Split
from siltstone.storage.topic_partition import TopicPartition

_SPLIT_BYTES: Final = 64 << 20
_HEADER_SPLIT_BYTES: Final = 256 << 20
"""For columns of batch headers alone: these are read several times as fast."""


def plan_splits(
    view: Manifest,
    options: ReadOptions,
    ranges: Mapping[TopicPartition, OffsetRange] | None = None,
    *,
    transport: str = "archive",
    is_live: bool = False,
) -> list[Split]:
    """Return splits that together read the ranges once, by default those of the options.

    ``is_live`` says that a view has no pin and its files may change while they are read.

    Raises:
        PipelineError: the ranges are not known, or are gone.
    """
    if ranges is None:
        ranges = resolve(view, options, find_in_files)
    rules = rules_of(options)
    lease = None
    if view.pin:
        lease = Lease(
            data=options.data,
            control=options.control,
            pin=view.pin,
            lease_ms=options.pin_lease_ms,
            cluster_id=view.cluster_id,
        )
    splits: list[Split] = []
    sizes = {each.topic_partition: each.size for each in view.partitions}
    target = target_bytes(sum(sizes.values()), options)
    offsets = sum(map(_length, ranges.values()))
    for partition in view.partitions:
        wanted = ranges.get(partition.topic_partition)
        if wanted is None:
            continue
        if not is_live and options.fail_on_data_loss:
            _check_end(partition, wanted, options)
        if wanted.start >= wanted.end:
            continue
        whole = Split(
            transport=transport,
            topic=partition.topic,
            partition=partition.partition,
            topic_id=partition.topic_id,
            folder=partition.folder,
            start_offset=wanted.start,
            end_offset=wanted.end,
            rules=replace(
                rules,
                deadline_ms=deadline(view, partition) if is_live else 0,
                unpinned_deadline_ms=deadline(view, partition),
                unpinned_last_end=partition.end_offset if partition.is_compacted else 0,
            ),
            is_compacted=partition.is_compacted,
            lease=lease,
            bootstrap=options.bootstrap,
            kafka=options.kafka,
        )
        if partition.folder:
            cut = _cut_files(partition, whole, options, target)
            if not cut:
                whole.check_gap(wanted.start, wanted.end)
            splits += cut
        else:
            splits += _cut_offsets(whole, options, offsets)
    return splits


def _check_end(partition: PinnedPartition, wanted: OffsetRange, options: ReadOptions) -> None:
    """Refuse to read a log whose end is known to be lost.

    Raises:
        DataLost: The end is lost.
    """
    if partition.lost_end and wanted.end >= last_offset(partition, options):
        raise DataLost(
            f"{partition.lost_end}; restore it, have a broker start and stop in the directory, "
            "which keeps what is whole, or set failOnDataLoss=false to read what is left"
        )


def rules_of(options: ReadOptions) -> Rules:
    """Return the rules of reading that options set."""
    return Rules(
        skips_corrupt=options.on_corrupt == "skip",
        is_committed=options.is_committed,
        fails_on_data_loss=options.fail_on_data_loss,
        time_from=options.time_from,
        time_last=options.time_to - (options.time_to < LAST_TIME),
    )


def deadline(view: Manifest, partition: PinnedPartition) -> int:
    """Return until when a read without a pin still sees all deletions; 0 means for ever."""
    return view.taken_at_ms + partition.safe_ms if partition.is_compacted else 0


def target_bytes(size: int, options: ReadOptions) -> int:
    """Return how many bytes a split should have, of so many in all."""
    target = options.split_bytes or _SPLIT_BYTES
    if options.min_partitions:
        return max(1, min(target, -(-size // options.min_partitions)))
    return target


def worth_a_task(columns: tuple[str, ...]) -> int:
    """Return how many bytes of log one task should read, for some columns."""
    return _HEADER_SPLIT_BYTES if WALKED.isdisjoint(columns) else _SPLIT_BYTES


def _cut_files(
    partition: PinnedPartition, whole: Split, options: ReadOptions, target: int
) -> list[Split]:
    try:
        return PartitionPlan(partition, whole, options).cut(target)
    except FileNotFoundError as error:
        raise SourceUnavailable(
            f"files of {partition.topic_partition} went away while the read was planned: "
            f"{error}; run it again"
        ) from error


def _cut_offsets(whole: Split, options: ReadOptions, total: int) -> list[Split]:
    """Return splits of about equally many offsets: the bytes are not known."""
    length = whole.end_offset - whole.start_offset
    parts = max(1, round(options.min_partitions * length / total))
    if options.max_records_per_partition:
        parts = max(parts, -(-length // options.max_records_per_partition))
    bounds = [whole.start_offset + length * part // parts for part in range(parts + 1)]
    return [
        replace(whole, start_offset=start, end_offset=end)
        for start, end in pairwise(bounds)
        if end > start
    ]


def _length(wanted: OffsetRange) -> int:
    return max(0, wanted.end - wanted.start)
