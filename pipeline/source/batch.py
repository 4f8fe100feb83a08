"""Reading topics as a batch: splits on the driver, records in the tasks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from siltstone.pipeline.options import LAST_TIME, ReadOptions
from siltstone.pipeline.planning.plan import worth_a_task
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.source.filters import Narrowed, narrow
from siltstone.pipeline.source.schema import check_schema, converted
from siltstone.pipeline.source.worker import is_pushing, settle
from siltstone.pipeline.transports import open_source
from siltstone.pipeline.transports.source import warn_of_moving

LEAST_LINGER_MS: Final = 20_000
"""How long a pin stays at least: a second action on a DataFrame reads what the first has pinned."""
LINGER_BYTES_PER_MS: Final = 32 << 10


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
        """
        source = open_source(self._asked())
        try:
            view = source.view()
            warn_of_moving(view, source.name)
            splits = source.plan(view, self._narrowed.ranges(source.ranges(view)))
        except BaseException:
            source.close()
            raise
        if source.name != "pinned" or not splits:
            source.close()
        size = sum(split.size for split in splits)
        asked = self._options.pin_linger_ms
        return [SplitPartition(lingering(split, size, asked)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a split; without anything to read Spark passes no split."""
        settle()
        if partition.value is None:
            return iter(())
        batches = scan(partition.value, self._columns)
        return converted(self._narrowed.keep(batches), self._schema)

    def _asked(self) -> ReadOptions:
        """Return the options, narrowed by filters and columns."""
        options, narrowed = self._options, self._narrowed
        last = narrowed.time_last
        return replace(
            options,
            time_from=max(options.time_from, narrowed.time_from),
            time_to=min(options.time_to, last + 1 if last < LAST_TIME else LAST_TIME),
            split_bytes=options.split_bytes or worth_a_task(self._columns),
        )


def lingering(split: Split, size: int, asked_ms: int) -> Split:
    """Return a split whose pin ends some time after its readers.

    By default this time grows with the bytes that are read, up to a lease.
    """
    if split.lease is None:
        return split
    own_ms = min(LEAST_LINGER_MS + size // LINGER_BYTES_PER_MS, split.lease.lease_ms)
    linger_ms = asked_ms or own_ms
    return replace(split, lease=replace(split.lease, linger_ms=linger_ms))


class FilteringReader(BatchReader):
    """Takes filters from Spark, if the session allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that can be applied here exactly, and return the others."""
        self._narrowed, left = narrow(filters, self._columns)
        return left


def make_reader(options: Mapping[str, str], schema: StructType) -> BatchReader:
    """Return a reader that takes filters if the session allows it.

    In other sessions Spark refuses a reader that takes filters, and a data source cannot ask what
    the session allows. But Spark pushes filters in a special worker, which shows it.
    """
    settle()
    reads_filters = ReadOptions.parse(options).filter_pushdown
    kind = FilteringReader if reads_filters and is_pushing() else BatchReader
    return kind(options, schema)
