"""Where the pipeline is measured: a broker of ours with its topics, and one Spark session."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from siltstone.pipeline.engine import SparkEngine
from siltstone.pipeline.spark.session import open_session
from tests.support.broker import SiltstoneProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

CONNECTOR: Final = "connector"
TUNED: Final = "connector, tuned"
OURS: Final = "siltstone"
FETCH: Final = "siltstone, fetch"
SHUFFLE: Final = "siltstone, shuffle"
CLIENT: Final = "confluent-kafka"
_TUNED_OPTIONS: Final = {
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": "4194304",
    "kafka.max.partition.fetch.bytes": "4194304",
}
_BROKER: Final = {"log.retention.check.interval.ms": "5000", "log.initial.task.delay.ms": "0"}
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Home:
    """A broker, and a session with the connector's jars that every source is read in."""

    def __init__(self, folder: Path, jars: Sequence[Path], records: int) -> None:
        self.folder = folder
        self.records = records
        self.broker = SiltstoneProcess(folder, _BROKER).start()
        self.data = self.broker.folder
        self.bootstrap = self.broker.bootstrap
        self.session = open_session("bench", master="local[2]", jars=jars)
        self.engine = SparkEngine(self.session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.session.stop()
        finally:  # a run that a signal ends may find the session in the middle of an answer
            self.broker.close()

    def new_folder(self, name: str) -> Path:
        """Return a folder of a name, which does not exist yet or any more."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def size_of(self, topic: str) -> int:
        """Return the bytes of a topic's segments."""
        return sum(path.stat().st_size for path in self.data.glob(f"{topic}-*/*.log"))

    def options(self, source: str, topic: str) -> dict[str, str]:
        """Return with what options one of the sources reads a topic."""
        if source == OURS:
            return {"subscribe": topic, "data": str(self.data)}
        plain = {"subscribe": topic, "kafka.bootstrap.servers": self.bootstrap}
        if source == FETCH:
            return {**plain, "transport": "fetch"}
        return plain | (_TUNED_OPTIONS if source == TUNED else {})

    def read(self, source: str, topic: str, *columns: str) -> DataFrame:
        """Return a topic as one of the sources gives it: all columns, or some."""
        options = self.options(source, topic)
        if source in {OURS, FETCH}:  # Spark prunes no columns of Python sources by itself
            options |= {"columns": ",".join(columns)} if columns else {}
            return self.session.read.format("siltstone").options(**options).load()
        frame = self.session.read.format("kafka").options(**options).load()
        return frame.select(*columns) if columns else frame

    def stream(self, source: str, topic: str, **options: str) -> Any:
        """Return a reader of a topic as a stream."""
        kind = "siltstone" if source == OURS else "kafka"
        options |= self.options(source, topic)
        return self.session.readStream.format(kind).options(**options)

    def processor_seconds(self) -> tuple[float, float]:
        """Return what this process with its children has used so far, and the broker."""
        broker = self.broker.daemon.pid
        return _of_tree(os.getpid(), without=broker), _of_tree(broker)


def _of_tree(pid: int, without: int = 0) -> float:
    """Return the processor seconds of a process and of all that descend from it."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(facts[1])
            ticks[int(entry.name)] = sum(int(each) for each in facts[11:15])
    total = 0
    for each, used in ticks.items():
        at = each
        while at not in {0, pid, without}:
            at = parents.get(at, 0)
        total += used if at == pid else 0
    return total / _TICKS
