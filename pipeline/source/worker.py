"""What is particular to the processes that Spark starts to plan a read and to run its tasks.

Spark's daemon collects the garbage of such a process whenever it has done something. That visits
all that is imported there and takes 40 ms, as long as a hundred megabytes of batch headers.
"""

import gc
import os
import sys
from functools import cache
from typing import Final

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_RUNTIME: Final = "SPARK_PYTHON_RUNTIME"
"""Spark's name of what runs: it sets it for its workers, and for nobody else."""


@cache
def settle() -> None:
    """Take what this process has by now out of the garbage collector's sight, once.

    What nobody refers to is freed all the same, unless it is in a cycle. In a process that Spark
    has not started nothing changes.
    """
    if os.environ.get(_RUNTIME) == "PYTHON_WORKER":
        gc.freeze()


def is_pushing() -> bool:
    """Tell whether Spark may hand filters down here: it does so in a worker of their own."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or getattr(spec, "name", None) == _PUSHING
