"""A topic as a table in ten lines of PySpark: cells for a notebook beside a broker.

$ python examples/pipeline.py siltstone-data users
"""

import sys

from pyspark.sql import functions

from siltstone.pipeline.spark.session import open_session

data, topic = sys.argv[1:3]  # the broker's first log directory, and what to read

# %% all records, straight from the segment files: the broker only pins them
spark = open_session("example")
records = spark.read.format("siltstone").options(data=data, subscribe=topic).load()
records.groupBy("partition").agg(functions.count("*"), functions.max("offset")).show()

# %% the last value of every key, deleted ones left out
newest = functions.max_by(functions.struct("key", "value"), "offset").alias("newest")
latest = (
    records.groupBy("partition", "key").agg(newest).select("newest.*").where("value IS NOT NULL")
)
latest.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").show()
spark.stop()
