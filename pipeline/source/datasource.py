"""The data source for Spark: a name, a schema, and its readers.

Every session imports this module when it looks for data sources. So that sessions which read no
topic need not pay, everything else is imported when it is used.
"""
# ruff: noqa: N802, PLC0415  # Spark names the methods; imports wait until they are needed

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from siltstone.pipeline.source.worker import settle
from siltstone.pipeline.spark.releases import check_release

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from siltstone.pipeline.source.batch import BatchReader
    from siltstone.pipeline.source.stream import StreamReader


class SiltstoneSource(DataSource):
    """``spark.read.format("siltstone")`` and ``spark.readStream.format("siltstone")``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_release(pyspark.__version__)
        self.options = dict(options)
        settle()

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "siltstone"

    def schema(self) -> str:
        """Return the columns if the user gives none: those of Spark's own Kafka source."""
        from siltstone.pipeline.source.schema import default_schema

        return default_schema(self.options)

    def reader(self, schema: "StructType") -> "BatchReader":
        """Return the reader of a batch."""
        from siltstone.pipeline.source.batch import make_reader

        return make_reader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "StreamReader":
        """Return the reader of a stream."""
        from siltstone.pipeline.source.stream import StreamReader

        return StreamReader(self.options, schema)
