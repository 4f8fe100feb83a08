"""A merge on the executors, by the package that a table's format has for Spark.

Such a package merges into the newest version. A job is right only on the version whose state it has
read. So the tasks that read the changed rows, once the package has chosen its version, check that
the newest one is still the one of the job.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from siltstone.pipeline.sinks.rewrite import Rewrite

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

_CHANGES: Final = "siltstone_changes"


def merge(
    session: "SparkSession", table: str, rewrite: Rewrite, check: Callable[[], object]
) -> "list[Row]":
    """Merge changed rows into a table, and return the answer; the check raises if it is too new."""
    session.dataSource.register(_source(session, rewrite, check))
    session.read.format(_CHANGES).load().createOrReplaceTempView(_CHANGES)
    names = rewrite.schema.names
    keys = ("key", "partition") if rewrite.by_partition else ("key",)
    same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
    gone = ", ".join(each if each in keys else f"NULL {each}" for each in names)
    # Each changed row comes twice, as an update would leave each of several rows of a key.
    return session.sql(
        f"""
        MERGE INTO {table} t USING (
          SELECT {gone}, false is_new FROM {_CHANGES} UNION ALL
          SELECT {", ".join(names)}, true FROM {_CHANGES} WHERE value IS NOT NULL
        ) s ON {same} AND NOT s.is_new
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND s.is_new THEN
          INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{each}" for each in names)})
        """  # noqa: S608  # names of our own columns
    ).collect()


def _source(
    session: "SparkSession", rewrite: Rewrite, check: Callable[[], object]
) -> "type[DataSource]":
    """Return a source of the changed rows, which are where only tasks of ours may reach them."""
    from pyspark.sql.datasource import (  # noqa: PLC0415  # an extra
        DataSource,
        DataSourceReader,
        InputPartition,
    )

    columns = session.createDataFrame(rewrite.schema.empty_table()).schema

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(file) for file in rewrite.changes]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            check()
            yield from rewrite.folder.read(partition.value).to_batches()

    class Changes(DataSource):
        @classmethod
        def name(cls) -> str:
            return _CHANGES

        def schema(self) -> "StructType":
            return columns

        def reader(self, schema: "StructType") -> DataSourceReader:  # noqa: ARG002  # it is that one
            return Reader()

    return Changes
