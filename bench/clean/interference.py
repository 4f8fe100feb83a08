"""The waits of small produces while the cleaner runs without pause, and while it does not.

What no broker can beat is measured beside it: the same load against a server that stores nothing,
on an idle machine, and while a process of a cleaner's priority reads the set again and again.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from bench.brokers import port_of
from bench.cases import PARTITIONS, make_topic
from bench.clean import homes
from bench.clean.floor import reading
from bench.clean.passes import OTHERS, beginnings, clean_offset, others_cpu_seconds
from bench.frames import Frames, batch_of, produce_answer, produce_frames
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.brokers import Broker
    from bench.cases import Result
    from bench.clean.homes import Contender
    from bench.clean.sets import DataSet
    from bench.load import Load

RATE: Final = 2000
SECONDS: Final = 8.0
COPIES: Final = 8
"""Partitions with the set in each, so that the cleaner does not run out of work."""

AGAINST_IDLE: Final = "p99, times idle"
IDLE: Final = "2,000 produces/s, idle"
BUSY: Final = "2,000 produces/s, cleaning A"

_SMALL_TOPIC = "small"
_WARM_OURS = 2.0
_WARM_PEER = 20.0
_LIMIT_SECONDS = 30


def measure_interference(
    load: Load, contender: Contender, data_set: DataSet
) -> Iterator[tuple[str, Result]]:
    """Yield the idle case and the busy one, of one life of a broker."""
    with homes.opened(contender, data_set, COPIES) as broker:
        make_topic(load, broker, _SMALL_TOPIC)
        warm = _WARM_OURS if contender.is_ours else _WARM_PEER
        port, pid = port_of(broker), broker.daemon.pid
        idle = _produce(load, port, pid, warm)
        yield IDLE, idle
        homes.warm(broker)  # all partitions are links to the same files
        homes.compact(broker)
        _wait_for_beginning(broker)
        busy = _produce(load, port, pid, 0.0)
        cleaned = sum(clean_offset(broker, number) > 0 for number in range(COPIES))
        if cleaned == COPIES:
            raise RuntimeError("the cleaner ended before the load did: it needs more copies")
        yield BUSY, {**_against(idle, busy), "logs cleaned": cleaned}


def measure_floor(load: Load, data_set: DataSet) -> Iterator[tuple[str, Result]]:
    """Yield both cases of a server that gives one canned answer to each request."""
    answer = Frames(data=produce_answer(_SMALL_TOPIC), positions={})
    with load.running("floor", answer) as (process, line):
        port = json.loads(line)["port"]
        idle = _produce(load, port, process.pid, _WARM_OURS)
        yield IDLE, idle
        with reading(data_set) as reader:
            yield BUSY, _against(idle, _produce(load, port, process.pid, 0.0, reader.pid))


def _against(idle: Result, busy: Result) -> Result:
    return {**busy, AGAINST_IDLE: busy["p99 us"] / idle["p99 us"]}


def _wait_for_beginning(broker: Broker) -> None:
    wait_until(lambda: any(beginnings(broker)), "the beginning of a pass", timeout=_LIMIT_SECONDS)


def _produce(load: Load, port: int, pid: int, warmup: float, *beside: int) -> Result:
    """Produce to a server; what the processes ``beside`` it use is not others' either."""
    batch = batch_of(0, 100, int(time.time() * 1000))
    others, began = others_cpu_seconds(pid, *beside), time.monotonic()
    got = load.run(
        "produce",
        produce_frames(_SMALL_TOPIC, range(PARTITIONS), batch, 1),
        port=port,
        pid=pid,
        connections=8,
        rate=RATE,
        warmup=warmup,
        seconds=SECONDS,
    )
    others = (others_cpu_seconds(pid, *beside) - others) / (time.monotonic() - began)
    return {
        "p50 us": got["p50_us"],
        "p99 us": got["p99_us"],
        "p99.9 us": got["p999_us"],
        "max us": got["max_us"],
        "requests/s": got["rps"],
        "broker cores": got["broker_cpu_seconds"] / got["seconds"],
        OTHERS: others,
    }
