"""Found by Spark on its own: ``spark.read.format("siltstone")`` needs no registration."""

from siltstone.pipeline.source.datasource import SiltstoneSource as DefaultSource

__all__ = ["DefaultSource"]
