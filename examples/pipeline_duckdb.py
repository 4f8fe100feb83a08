"""SQL over a topic by DuckDB, without Spark and Java: cells for a notebook beside a broker.

$ pip install '.[arrow]' duckdb
$ python examples/pipeline_duckdb.py siltstone-data users
"""

import sys
from datetime import UTC, datetime, timedelta

import duckdb

from siltstone.pipeline.arrow import scan

data, topic = sys.argv[1:3]  # the broker's first log directory, and what to read

# %% records by partition: DuckDB takes the reader batch by batch, and it can be read once
records = scan(topic, data=data, columns=["partition", "offset"])
counts = duckdb.execute("""
    SELECT partition, count(*), max("offset") FROM records GROUP BY ALL ORDER BY ALL
""")
print(*counts.fetchall(), sep="\n")

# %% the last value of every key, deleted ones left out
records = scan(topic, data=data, columns=["partition", "offset", "key", "value"])
latest = duckdb.execute("""
    SELECT decode(key), decode(arg_max_null(value, "offset")) AS newest FROM records
    WHERE key IS NOT NULL GROUP BY partition, key HAVING newest IS NOT NULL ORDER BY ALL
""")
print(*latest.fetchall(), sep="\n")

# %% the last hour: batches that have no record of it are not decoded
hour_ago = datetime.now(UTC) - timedelta(hours=1)
recent = scan(topic, data=data, columns=["key"], filters=[("timestamp", ">=", hour_ago)])
print(duckdb.execute("SELECT count(DISTINCT key) FROM recent").fetchall())
