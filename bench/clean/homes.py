"""Folders with a set in them, under either broker, as it left them at a clean stop.

A set is written once. Each broker then opens it once without marks of a clean stop, so that it
makes its own indexes, and every run begins with a copy of what that left. Closed ``.log`` files are
links to one and the same file: those are not written to, and the page cache holds them once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.brokers import OURS, STOCK, Broker, Ours, Peer, StockJars
from bench.clean.filling import SEGMENT_BYTES, fill
from bench.clean.transactions import fill_with_transactions
from bench.load import cache_folder
from siltstone.storage import files
from tests.support.clients.confluent import Confluent
from tests.support.waiting import equals, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.clean.sets import DataSet

TOPIC: Final = "bench"
SETTINGS: Final = {
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "100",
    "log.retention.bytes": "-1",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.segment.delete.delay.ms": "60000",
}
LOGGING: Final = """\
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{UNIX_MILLIS} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
logger.cleaner.name = org.apache.kafka.storage.internals.log.Cleaner
logger.cleaner.level = info
logger.thread.name = org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread
logger.thread.level = info
"""

_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Contender:
    """A broker to measure; Apache Kafka with a heap of so many MiB."""

    name: str
    heap_mib: int = 0

    @property
    def is_ours(self) -> bool:
        """Tell whether it is our broker."""
        return self.heap_mib == 0


SILTSTONE: Final = Contender(OURS)
KAFKA: Final = Contender("kafka 1 GiB", 1024)
SMALL_KAFKA: Final = Contender("kafka 256 MiB", 256)


class HeapJars(StockJars):
    """Jars whose broker has a heap of a given size, and says when its cleaner begins."""

    def __init__(self, folder: Path, java: str, heap_mib: int, logging: Path) -> None:
        super().__init__(folder, java)
        self._heap_mib = heap_mib
        self._logging = logging
        logging.write_text(LOGGING, encoding="ascii")

    def command(self, kind: str, main: str, *arguments: str) -> list[str]:
        """Return the command that runs a class."""
        if kind != "broker":
            return super().command(kind, main, *arguments)
        heap = [f"-Xms{self._heap_mib}m", f"-Xmx{self._heap_mib}m"]
        others = [option for option in STOCK if not option.startswith(("-Xms", "-Xmx"))]
        logging = f"-Dlog4j2.configurationFile={self._logging}"
        return [
            *(self.java, *heap, *others, logging),
            *("-cp", f"{self.folder}/*", main, *arguments),
        ]


def make_contender(contender: Contender, root: Path) -> Broker:
    """Return a broker that is not started yet, its data in ``root``."""
    if contender.is_ours:
        return Ours(root, SETTINGS)
    peer = Peer(root, SETTINGS)
    found = peer.jars
    peer.jars = HeapJars(
        found.folder, found.java, contender.heap_mib, root / "cleaner-log4j2.properties"
    )
    return peer


def set_folder(data_set: DataSet) -> Path:
    """Return the folder with a set's segments, which are written if they do not exist yet."""
    folder = cache_folder() / "bench" / "clean" / "sets" / data_set.folder
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        if data_set.transaction_records:
            with tempfile.TemporaryDirectory(dir=cache_folder()) as root:
                broker = make_contender(KAFKA, Path(root))
                try:
                    broker.start()
                    fill_with_transactions(data_set, broker, TOPIC, partial)
                finally:
                    broker.close()
        else:
            fill(data_set, partial)
        partial.replace(folder)
    return folder


def home_of(contender: Contender, data_set: DataSet, partitions: int = 1) -> Path:
    """Return a data folder with a set in every partition, made if it does not exist yet."""
    kind = OURS if contender.is_ours else "kafka"
    home = cache_folder() / "bench" / "clean" / kind / f"{data_set.folder}x{partitions}"
    if home.exists():
        return home
    source = set_folder(data_set)
    end = end_offset_of(source)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as root:
        broker = make_contender(contender, Path(root))
        try:
            broker.start()
            Confluent(broker.bootstrap).create(
                TOPIC,
                partitions,
                {"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)},
            )
            folders = [broker.folder / f"{TOPIC}-{number}" for number in range(partitions)]
            wait_until(
                lambda: all((folder / files.PARTITION_METADATA).exists() for folder in folders),
                "the metadata of all partitions",
                timeout=_TIMEOUT_SECONDS,
            )
            broker.stop()
            for folder in folders:
                _replace_segments(folder, source)
            (broker.folder / files.CLEAN_SHUTDOWN).unlink()
            for checkpoint in broker.folder.glob("*-offset-checkpoint"):
                checkpoint.unlink()
            broker.start(timeout=120)
            wait_until(
                lambda: Confluent(broker.bootstrap).bounds(TOPIC)[1],
                f"end offset {end}",
                equals(end),
                timeout=_TIMEOUT_SECONDS,
            )
            broker.stop(timeout=120)
            home.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(broker.folder, home)
        finally:
            broker.close()
    return home


@contextmanager
def opened(contender: Contender, data_set: DataSet, partitions: int = 1) -> Iterator[Broker]:
    """Run a broker on a copy of its folder with a set; nothing is left of it afterwards."""
    home = home_of(contender, data_set, partitions)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as root:
        broker = make_contender(contender, Path(root))
        shutil.copytree(home, broker.folder, copy_function=_link_or_copy)
        try:
            broker.start(timeout=60)
            yield broker
        finally:
            broker.close()


def compact(broker: Broker, ratio: float = 0.01) -> None:
    """Have the topic compacted from now on; at ratio 1 only on request."""
    Confluent(broker.bootstrap).alter(
        TOPIC, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": str(ratio)}
    )


def warm(broker: Broker) -> None:
    """Bring the topic's segments into the page cache: a system may have given up idle pages."""
    chunk = bytearray(1 << 20)
    for path in segments_of(broker.folder / f"{TOPIC}-0"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(chunk):
                pass


def segments_of(folder: Path) -> list[Path]:
    """Return a partition's segments, the active one last."""
    return sorted(folder.glob("*.log"))


def end_offset_of(folder: Path) -> int:
    """Return the offset after the last record: the active segment of a set holds one."""
    return int(segments_of(folder)[-1].stem) + 1


def _replace_segments(folder: Path, source: Path) -> None:
    for kind in (*files.SEGMENT_KINDS, files.SNAPSHOT):
        for path in folder.glob(f"*{kind}"):
            path.unlink()
    *closed, active = segments_of(source)
    for path in closed:
        os.link(path, folder / path.name)
    shutil.copy2(active, folder / active.name)


def _link_or_copy(source: str, target: str) -> None:
    """Link a segment that is closed, and copy files that a broker may write to."""
    path = Path(source)
    if path.suffix == files.LOG and path != segments_of(path.parent)[-1]:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
