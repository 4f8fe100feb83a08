"""Filters that readers hand down: some are applied here, exactly, others are left to the reader.

Offsets, partitions, topics and times narrow what is read. Conditions on the key, or on whether
a value exists, are applied to the rows of a batch.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.options import FIRST_TIME, LAST_TIME, ReadOptions
from siltstone.pipeline.planning.plan import worth_a_task
from siltstone.pipeline.planning.ranges import OffsetRange
from siltstone.storage.topic_partition import TopicPartition

T = TypeVar("T")

IS_NULL: Final = "is null"
IS_VALID: Final = "is valid"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NEVER_NULL: Final = TYPES.keys() - {"key", "value", "headers"}
_BYTES: Final = (bytes, bytearray, str)
_NAMED: Final = {"key": _BYTES, "value": _BYTES, "topic": (str,), "partition": (int,)}
"""Columns that equality narrows, and by values of which types."""


class Condition(NamedTuple):
    """A column, an operator (``=``, ``<``, ``in``, `IS_NULL`, …) and a value."""

    column: str
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The rows that filters allow: bounds, all inclusive, sets of names, and conditions."""

    first_offset: int = 0
    last_offset: int = LAST_TIME
    time_from: int = FIRST_TIME
    time_last: int = LAST_TIME
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    rows: tuple[pc.Expression, ...] = ()

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

    def options(self, options: ReadOptions, columns: tuple[str, ...]) -> ReadOptions:
        """Return the options of a read of these columns with the bounds of time."""
        last = self.time_last
        return replace(
            options,
            time_from=max(options.time_from, self.time_from),
            time_to=min(options.time_to, last + 1 if last < LAST_TIME else LAST_TIME),
            split_bytes=options.split_bytes or worth_a_task(columns),
        )

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that all conditions hold for."""
        for batch in batches:
            kept = batch
            for condition in self.rows:
                kept = kept.filter(condition)
            if kept.num_rows:
                yield kept


def narrow(filters: Iterable[T], read: Callable[[T], Condition | None]) -> tuple[Narrowed, list[T]]:
    """Return the bounds that filters set, and the filters that the reader has to apply itself.

    ``read`` turns a filter into a condition, if it is one.
    """
    narrowed = Narrowed()
    left = []
    for each in filters:
        condition = read(each)
        taken = None if condition is None else _take(narrowed, condition)
        if taken is None:
            left.append(each)
        else:
            narrowed = taken
    return narrowed, left


def _take(narrowed: Narrowed, asked: Condition) -> Narrowed | None:
    """Return the bounds with one more condition, None if it is not exact here."""
    name, operator, _ = asked
    if operator == IS_VALID and name in _NEVER_NULL:
        return narrowed
    if name in {"key", "value"} and operator in {IS_NULL, IS_VALID}:
        column = pc.field(name)
        condition = column.is_null() if operator == IS_NULL else column.is_valid()
        return replace(narrowed, rows=(*narrowed.rows, condition))
    if name in _NAMED:
        return _take_values(narrowed, asked)
    if name in {"offset", "timestamp", "timestampMs"}:
        return _take_bounds(narrowed, asked)
    return None


def _take_values(narrowed: Narrowed, asked: Condition) -> Narrowed | None:
    """Narrow by an equality or a list; None for other conditions."""
    name, operator, value = asked
    values = (value,) if operator == "=" else tuple(value) if operator == "in" else ()
    if not values or any(type(each) not in _NAMED[name] for each in values):
        return None
    if name in {"key", "value"}:
        plain = [each.encode() if isinstance(each, str) else bytes(each) for each in values]
        condition = pc.field(name).isin(pa.array(plain, pa.binary()))
        return replace(narrowed, rows=(*narrowed.rows, condition))
    if name == "topic":
        return replace(narrowed, topics=_both(narrowed.topics, values))
    return replace(narrowed, partitions=_both(narrowed.partitions, values))


def _both(known: frozenset[Any] | None, values: tuple[Any, ...]) -> frozenset[Any]:
    return frozenset(values) if known is None else known.intersection(values)


def _take_bounds(narrowed: Narrowed, asked: Condition) -> Narrowed | None:
    bounds = _bounds(asked)
    if bounds is None:
        return None
    low, high = bounds
    if asked.column == "offset":
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


def _bounds(asked: Condition) -> tuple[int, int] | None:
    """Return the least and the greatest number that a comparison allows."""
    number = _number(asked)
    if number is None:
        return None
    whole, is_exact = number
    below = whole - 1 if is_exact else whole
    above = whole + 1
    allowed = {
        "=": (whole, whole) if is_exact else (LAST_TIME, FIRST_TIME),
        ">": (above, LAST_TIME),
        ">=": (whole if is_exact else above, LAST_TIME),
        "<": (FIRST_TIME, below),
        "<=": (FIRST_TIME, whole),
    }
    if asked.operator not in allowed:
        return None
    low, high = allowed[asked.operator]
    if low > LAST_TIME or high < FIRST_TIME:
        return LAST_TIME, FIRST_TIME
    return max(low, FIRST_TIME), min(high, LAST_TIME)


def _number(asked: Condition) -> tuple[int, bool] | None:
    """Return a value as a whole number, rounded down, and whether that is exact; times in ms.

    Subclasses, such as the times of pandas, may have finer values.
    """
    value = asked.value
    if asked.column == "timestamp":
        if type(value) is not datetime or value.tzinfo is None:
            return None
        since = value - _EPOCH
        return since // _MILLISECOND, not since % _MILLISECOND
    return (value, True) if type(value) is int else None
