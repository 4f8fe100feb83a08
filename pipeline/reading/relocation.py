"""Finding offsets again after their files were replaced."""

from dataclasses import replace

from siltstone.pipeline.errors import DataLost
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.archive_view import read_topic_id, view_partition
from siltstone.pipeline.planning.partition_plan import PartitionPlan
from siltstone.pipeline.planning.ranges import check_start
from siltstone.pipeline.planning.split import Split


class Replaced(Exception):  # noqa: N818 - what became of the file
    """A file is not the one that was planned."""


def check_identity(split: Split) -> None:
    """Refuse the folder of another topic that has the name now; a pin's links need no check.

    Raises:
        DataLost: the topic was deleted and made again.
    """
    if split.lease is not None or not split.topic_id:
        return
    topic_id = read_topic_id(split.folder)
    if topic_id and topic_id != split.topic_id:
        raise DataLost(
            f"topic {split.topic} was deleted and made again since the read was planned (topic id "
            f"{split.topic_id}, now {topic_id}); begin again"
        )


def relocate(split: Split, offset: int) -> Split:
    """Return the rest of a split, from an offset on, planned with the present files.

    Raises:
        DataLost: the offsets are gone, or the topic is another one of the same name.
        SourceUnavailable: the folder is gone.
    """
    check_identity(split)
    partition = view_partition(split.folder)
    start = check_start(partition, offset, fails=split.rules.fails_on_data_loss)
    if split.rules.fails_on_data_loss and partition.end_offset < split.end_offset:
        raise DataLost(
            f"{split.topic_partition} ends at {partition.end_offset} and reached "
            f"{split.end_offset} before: it was cut or made again; begin again"
        )
    rest = replace(split, start_offset=min(start, split.end_offset), pieces=())
    options = ReadOptions(subscribe=(split.topic,))
    found = PartitionPlan(partition, rest, options).cut(1 << 62)
    pieces = tuple(piece for each in found for piece in each.pieces)
    return replace(rest, pieces=pieces)
