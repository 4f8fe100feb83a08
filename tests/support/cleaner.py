"""Compacted logs under a real LogManager, with a clock that the test moves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cleaner.manager import CleanerManager
from config.server import ServerConfig
from config.topic import TopicConfig
from storage.log import Log
from storage.manager import LogManager
from storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.clock import FakeClock
from tests.support.logs import TOPIC_ID, validated

COMPACT = TopicConfig(cleanup_policy=("compact",))


class CompactedLogs:
    """Logs of compacted topics; `restart` opens the folder again."""

    def __init__(self, root: Path, *, directories: int = 1) -> None:
        self.paths = [root / f"data-{number}" for number in range(directories)]
        self.clock = FakeClock(now_ms=TIMESTAMP + 60_000)
        self.configs: dict[str, TopicConfig] = {}
        self.open()

    def open(self) -> None:
        """Open the folders."""
        self.logs = LogManager(
            self.paths,
            ServerConfig(),
            lambda topic: self.configs.get(topic, COMPACT),
            self.clock,
        )
        self.logs.load()
        self.manager = CleanerManager(self.logs.logs, self.clock)
        self.manager.load([each.path for each in self.logs.directories])

    def restart(self) -> None:
        """Stop cleanly and open the folders again."""
        self.close()
        self.open()

    def close(self) -> None:
        """Stop cleanly."""
        self.logs.close()

    def create(self, topic: str = "orders", **config: Any) -> Log:
        """Create a compacted topic of one partition."""
        self.configs[topic] = TopicConfig(**{"cleanup_policy": ("compact",), **config})
        return self.logs.create(TopicPartition(topic, 0), TOPIC_ID, self.configs[topic])

    def reconfigure(self, log: Log, **config: Any) -> None:
        """Give a topic other settings."""
        topic = log.topic_partition.topic
        self.configs[topic] = TopicConfig(**{"cleanup_policy": ("compact",), **config})
        log.reconfigure(self.configs[topic])

    def fill(self, log: Log, segments: int = 3, *, rows: int = 10, **fields: Any) -> None:
        """Close that many segments of one batch each; the active one stays empty."""
        for _ in range(segments):
            append(log, [(b"k%d" % number, b"value") for number in range(rows)], **fields)
            log.roll()
        self.settle()

    def settle(self) -> None:
        """Have the background work done that waits."""
        self.logs.background.drain()

    def checkpoint(self, directory: int = 0) -> str:
        """Return the text of the cleaner's checkpoint."""
        path = self.paths[directory] / "cleaner-offset-checkpoint"
        return path.read_text() if path.exists() else ""


def append(log: Log, rows: list[Row], **fields: Any) -> int:
    """Append one batch of (key, value) rows and return its base offset."""
    return log.append(validated(make_batch(rows, **fields))).base_offset


def contents(rows: Mapping[bytes, bytes | None]) -> list[Row]:
    """Return rows of a mapping."""
    return list(rows.items())
