"""Decoding without compiled kernels, and filters: what the source does to record batches."""

from functools import partial

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringStartsWith,
)

from siltstone.pipeline.filters import narrow
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.pipeline.source.batch import condition_of
from siltstone.storage.topic_partition import TopicPartition

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


def test_what_is_exact_here_is_not_left_to_spark() -> None:
    """Offsets, names and keys are taken; what is not understood is handed back."""
    left = [StringStartsWith(("topic",), "r"), Not(EqualTo(("offset",), 3)), EqualTo(("a", "b"), 1)]
    taken = [
        GreaterThan(("offset",), 4),
        LessThan(("offset",), 9),
        IsNotNull(("offset",)),
        In(("partition",), (0, 2)),
        EqualTo(("key",), b"k"),
    ]

    narrowed, handed_back = narrow([*left, *taken], partial(condition_of, COLUMNS))

    assert handed_back == left
    assert (narrowed.first_offset, narrowed.last_offset) == (5, 8)
    ranges = {TopicPartition("t", number): OffsetRange(0, 7) for number in range(3)}
    assert narrowed.ranges(ranges) == {
        TopicPartition("t", 0): OffsetRange(5, 7),
        TopicPartition("t", 2): OffsetRange(5, 7),
    }


def test_a_filter_on_a_column_that_is_not_read_is_handed_back() -> None:
    """A schema may rename nothing, but leave columns out."""
    assert condition_of(("offset",), EqualTo(("key",), b"k")) is None
