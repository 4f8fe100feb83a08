"""Topics as tables: Spark, or plain Python, over the segments of a log. No code of the broker's."""
