"""The data source ``siltstone`` of Spark: topics as DataFrames, at once or as a stream."""
