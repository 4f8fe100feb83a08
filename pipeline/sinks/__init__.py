"""Where tables go: Parquet, Delta and Iceberg, each changed by one atomic commit."""
