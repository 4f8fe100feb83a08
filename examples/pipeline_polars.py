"""A topic as a lazy frame of Polars, without Spark and Java: cells for a notebook beside a broker.

$ pip install '.[arrow]' polars
$ python examples/pipeline_polars.py siltstone-data users
"""

import sys
from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from siltstone.pipeline.arrow import scan

data, topic = sys.argv[1:3]  # the broker's first log directory, and what to read


# %% Polars says which columns it needs, and takes the batches one by one
def batches(
    columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of the topic until there are enough; then the reader and its pin end."""
    with scan(topic, data=data, columns=columns) as reader:
        for batch in reader:
            frame = pl.DataFrame(batch)[:rows]
            yield frame if predicate is None else frame.filter(predicate)
            if rows is not None and (rows := rows - len(frame)) == 0:
                return


schema = pl.DataFrame(scan(topic, data=data).schema.empty_table()).schema
records = register_io_source(batches, schema=schema)

# %% records by partition
by_partition = records.group_by("partition").agg(pl.len(), pl.col("offset").max())
print(by_partition.sort("partition").collect())

# %% the last value of every key, deleted ones left out
latest = (
    records.group_by("partition", "key").agg(pl.col("value").sort_by("offset").last()).drop_nulls()
)
print(latest.select(pl.col("key", "value").cast(pl.String)).sort("key", "value").collect())

# %% a few records: the read ends with them
print(records.select("offset", "timestamp").head(3).collect())
