"""Questions that only our broker answers: why partitions are as they are, and what a pass would do.

As typed in a shell: the time of the command includes the start of its interpreter.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.brokers import Ours, port_of
from bench.clean import homes
from bench.clean.homes import SILTSTONE, TOPIC
from bench.frames import produce_frames
from bench.load import cache_folder
from tests.support.batches import make_batch
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from bench.brokers import Broker
    from bench.cases import Result
    from bench.clean.sets import DataSet
    from bench.load import Load

PARTITIONS: Final = 5000
EXPLAIN: Final = "explain, 5,000 partitions"
AGAINST_SCAN: Final = "prediction, times scan"
DRY_RUN: Final = "dry run of A"


def measure_explain(load: Load) -> Result:
    """Ask why partitions, with a batch in each, are not compacted now."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as root:
        broker = homes.make_contender(SILTSTONE, Path(root))
        try:
            broker.start()
            Confluent(broker.bootstrap).create(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
            _fill(load, broker)
            seconds, found = _explain(broker)
        finally:
            broker.close()
    if len(found) != PARTITIONS:
        raise RuntimeError(f"{len(found)} partitions are explained, not {PARTITIONS}")
    return {"seconds": seconds}


def measure_dry_run(data_set: DataSet) -> Result:
    """Predict the pass over a set, then have it made: both read everything twice."""
    with homes.opened(SILTSTONE, data_set) as broker:
        homes.warm(broker)
        homes.compact(broker, ratio=1)
        seconds, (facts,) = _explain(broker, "--dry-run", TOPIC)
        _run(broker, "clean", TOPIC, "--wait")
        (event,) = map(json.loads, _run(broker, "history", "--json", TOPIC).splitlines())
    if not event["prediction_held"]:
        raise RuntimeError("the prediction was wrong")
    predicted = facts["prediction"]
    scan = event["map_seconds"] + event["copy_seconds"]
    return {
        "command s": seconds,
        "prediction s": predicted["seconds"],
        "scan of the pass s": scan,
        AGAINST_SCAN: predicted["seconds"] / scan,
    }


def _fill(load: Load, broker: Broker) -> None:
    batch = make_batch([(b"key", b"value")])
    load.run(
        "produce",
        produce_frames(TOPIC, range(PARTITIONS), bytes(batch), 1),
        port=port_of(broker),
        connections=8,
        warmup=0,
        seconds=60,
        count=PARTITIONS,
    )


def _explain(broker: Broker, *words: str) -> tuple[float, list[dict[str, Any]]]:
    began = time.monotonic()
    said = _run(broker, "explain", "--json", *words)
    seconds = time.monotonic() - began
    return seconds, json.loads(said)["partitions"]


def _run(broker: Broker, *words: str) -> str:
    if not isinstance(broker, Ours):
        raise TypeError(f"{broker.name} has no commands of ours")
    return subprocess.run(broker.command(*words), capture_output=True, text=True, check=True).stdout
