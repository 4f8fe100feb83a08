"""Groups beside Apache Kafka: ``python -m bench.groups --out bench/results``.

``bench/README.md`` says what each case answers.
"""

from __future__ import annotations

import sys

from bench.comparison import Suite, main
from bench.consumer_tool import ConsumerTool
from bench.group_cases import Commits, Heartbeats, Memory, Rebalances
from bench.load import Load
from bench.offset_loading import Loading


def suite() -> Suite:
    """Return the cases."""
    load = Load()
    return Suite(
        "groups",
        (
            Commits(load),
            Heartbeats(load),
            Rebalances(),
            ConsumerTool(load, "classic"),
            ConsumerTool(load, "consumer"),
            Memory(),
            Loading(),
        ),
    )


if __name__ == "__main__":
    sys.exit(main(suite(), __doc__ or "", sys.argv[1:]))
