"""Tunes the processes that Spark starts to plan a read and to run its tasks.

Spark's daemon collects the garbage of such a process after each piece of work. That visits
everything that is imported there and takes 40 ms, as long as reading a hundred megabytes of batch
headers.
"""

import gc
import os
import sys
from functools import cache
from typing import Final

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_FACTORY: Final = "PYTHON_WORKER_FACTORY_"
"""How the names of variables begin that Spark sets for its workers only."""


@cache
def settle() -> None:
    """Freeze the present objects of this process for the garbage collector, once.

    They are still freed when nothing refers to them, unless they are in a cycle. In a process that
    Spark has not started nothing is done.
    """
    if is_worker():
        gc.freeze()


def is_worker() -> bool:
    """Tell whether Spark has started this process."""
    return any(name.startswith(_FACTORY) for name in os.environ)


def is_pushing() -> bool:
    """Tell whether this is the worker in which Spark pushes filters."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or getattr(spec, "name", None) == _PUSHING
