"""The targets of tables: Parquet, Delta and Iceberg, each changed by one atomic commit."""
