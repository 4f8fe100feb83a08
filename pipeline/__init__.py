"""Topics as tables: Spark, or plain Python, reads a log's segments. Not used by the broker."""
