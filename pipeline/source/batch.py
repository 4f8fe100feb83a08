"""Reading topics as a batch: splits on the driver, records in the tasks."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from siltstone.pipeline.client.keeper import keep
from siltstone.pipeline.filters import IS_NULL, IS_VALID, Condition, Narrowed, narrow
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.source.schema import check_schema, converted
from siltstone.pipeline.source.worker import is_pushing, is_worker, settle
from siltstone.pipeline.transports import open_source
from siltstone.pipeline.transports.source import warn_of_moving

_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
    IsNull: IS_NULL,
    IsNotNull: IS_VALID,
}


class SplitPartition(InputPartition):
    """A split, as Spark hands it to a task."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class BatchReader(DataSourceReader):
    """Plans a read on the driver, and reads splits on the executors."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = ReadOptions.parse(options)
        self._schema = schema
        self._columns = check_schema(schema)
        self._narrowed = Narrowed()

    def partitions(self) -> list[InputPartition]:
        """Return a split for each task.

        The pin is not released: tasks renew it while they read, and its lease ends after the last.
        It is kept for further actions: no other files are of that moment.
        """
        with open_source(self._narrowed.options(self._options, self._columns)) as source:
            view = source.view()
            warn_of_moving(view, source.name)
            splits = source.plan(view, self._narrowed.ranges(source.ranges(view)))
            if splits:
                source.leave()
        lease = splits[0].lease if splits else None
        if lease is not None and is_worker():
            keep(lease)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a split; without anything to read Spark passes no split."""
        settle()
        if partition is None or partition.value is None:
            return iter(())
        batches = scan(partition.value, self._columns)
        return converted(self._narrowed.keep(batches), self._schema)


class FilteringReader(BatchReader):
    """Takes filters from Spark, if the session allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that can be applied here exactly, and return the others."""
        self._narrowed, left = narrow(filters, partial(condition_of, self._columns))
        return left


def condition_of(columns: tuple[str, ...], asked: Filter) -> Condition | None:
    """Return a filter of Spark as a condition on one of the columns, None if it is no such."""
    attribute: tuple[str, ...] = getattr(asked, "attribute", ())
    operator = _OPERATORS.get(type(asked))
    if operator is None or len(attribute) != 1 or attribute[0] not in columns:
        return None
    return Condition(attribute[0], operator, getattr(asked, "value", None))


def make_reader(options: Mapping[str, str], schema: StructType) -> BatchReader:
    """Return a reader that takes filters if the session allows it.

    In other sessions Spark refuses a reader that takes filters, and a data source cannot ask what
    the session allows. But Spark pushes filters in a special worker, which shows it.
    """
    settle()
    reads_filters = ReadOptions.parse(options).filter_pushdown
    kind = FilteringReader if reads_filters and is_pushing() else BatchReader
    return kind(options, schema)
