"""Filters that Spark hands down: some are applied here, exactly, others are left to Spark.

Offsets, partitions, topics and times narrow what is read. Conditions on the key, or on whether
a value exists, are applied before rows cross into the JVM.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.options import FIRST_TIME, LAST_TIME
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.storage.topic_partition import TopicPartition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NEVER_NULL: Final = TYPES.keys() - {"key", "value", "headers"}


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The rows that filters allow: bounds, all inclusive, sets of names, and conditions."""

    first_offset: int = 0
    last_offset: int = LAST_TIME
    time_from: int = FIRST_TIME
    time_last: int = LAST_TIME
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    rows: tuple["RowFilter", ...] = field(default=())

    def ranges(
        self, ranges: dict[TopicPartition, OffsetRange]
    ) -> dict[TopicPartition, OffsetRange]:
        """Return the parts of ranges that can hold wanted rows."""
        return {
            key: OffsetRange(
                max(wanted.start, self.first_offset), min(wanted.end, self.last_offset + 1)
            )
            for key, wanted in ranges.items()
            if (self.topics is None or key.topic in self.topics)
            and (self.partitions is None or key.partition in self.partitions)
        }

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that all conditions hold for."""
        for batch in batches:
            kept = batch
            for condition in self.rows:
                kept = kept.filter(condition.mask(kept))
            if kept.num_rows:
                yield kept


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on key or value: one of some values, or whether it is null."""

    column: str
    values: tuple[bytes | str, ...] | None
    is_null: bool = False

    def mask(self, batch: pa.RecordBatch) -> Any:
        """Return which rows stay."""
        column = batch.column(self.column)
        if self.values is None:
            return column.is_null() if self.is_null else column.is_valid()
        values = [each.encode() if isinstance(each, str) else each for each in self.values]
        return pc.is_in(column, value_set=pa.array(values, pa.binary()))


def narrow(filters: Iterable[Filter], columns: tuple[str, ...]) -> tuple[Narrowed, list[Filter]]:
    """Return the bounds that filters set, and the filters that Spark has to apply itself."""
    narrowed = Narrowed()
    left = []
    for each in filters:
        taken = _take(narrowed, each, columns)
        if taken is None:
            left.append(each)
        else:
            narrowed = taken
    return narrowed, left


def _take(narrowed: Narrowed, asked: Filter, columns: tuple[str, ...]) -> Narrowed | None:
    attribute: tuple[str, ...] = getattr(asked, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in columns:
        return None
    name = attribute[0]
    if isinstance(asked, IsNotNull) and name in _NEVER_NULL:
        return narrowed
    if name in {"key", "value"}:
        return _take_bytes(narrowed, name, asked)
    if name in {"topic", "partition"}:
        return _take_names(narrowed, name, asked)
    return _take_bounds(narrowed, name, asked)


def _take_bounds(narrowed: Narrowed, name: str, asked: Filter) -> Narrowed | None:
    bounds = _bounds(asked, name)
    if bounds is None or name not in {"offset", "timestamp", "timestampMs"}:
        return None
    low, high = bounds
    if name == "offset":
        return replace(
            narrowed,
            first_offset=max(narrowed.first_offset, low),
            last_offset=min(narrowed.last_offset, high),
        )
    return replace(
        narrowed,
        time_from=max(narrowed.time_from, low),
        time_last=min(narrowed.time_last, high),
    )


def _take_bytes(narrowed: Narrowed, name: str, asked: Filter) -> Narrowed | None:
    if isinstance(asked, IsNull | IsNotNull):
        condition = RowFilter(name, None, isinstance(asked, IsNull))
        return replace(narrowed, rows=(*narrowed.rows, condition))
    values: tuple[Any, ...]
    if isinstance(asked, EqualTo | EqualNullSafe):
        values = (asked.value,)
    elif isinstance(asked, In):
        values = tuple(asked.value)
    else:
        return None
    if not all(isinstance(each, bytes | bytearray | str) for each in values):
        return None
    plain = tuple(each if isinstance(each, str) else bytes(each) for each in values)
    return replace(narrowed, rows=(*narrowed.rows, RowFilter(name, plain)))


def _take_names(narrowed: Narrowed, name: str, asked: Filter) -> Narrowed | None:
    """Narrow by an equality or a list of topics or partitions; None for other filters."""
    if isinstance(asked, EqualTo | EqualNullSafe):
        values = frozenset((asked.value,))
    elif isinstance(asked, In):
        values = frozenset(asked.value)
    else:
        return None
    if name == "topic":
        known = narrowed.topics
        return replace(narrowed, topics=values if known is None else known & values)
    known_numbers = narrowed.partitions
    return replace(narrowed, partitions=values if known_numbers is None else known_numbers & values)


def _bounds(asked: Filter, name: str) -> tuple[int, int] | None:
    """Return the least and the greatest number that a comparison allows."""
    number = _number(getattr(asked, "value", None), name)
    if number is None:
        return None
    whole, is_exact = number
    below = whole - 1 if is_exact else whole
    above = whole + 1
    exactly = (whole, whole) if is_exact else (LAST_TIME, FIRST_TIME)
    allowed: dict[type[Filter], tuple[int, int]] = {
        EqualTo: exactly,
        EqualNullSafe: exactly,
        GreaterThan: (above, LAST_TIME),
        GreaterThanOrEqual: (whole if is_exact else above, LAST_TIME),
        LessThan: (FIRST_TIME, below),
        LessThanOrEqual: (FIRST_TIME, whole),
    }
    return allowed.get(type(asked))


def _number(value: Any, name: str) -> tuple[int, bool] | None:
    """Return a value as a whole number, rounded down, and whether that is exact; times in ms."""
    if name == "timestamp":
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        since = value - _EPOCH
        return since // _MILLISECOND, not since % _MILLISECOND
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value, True
