"""Compacted logs under a real LogManager, with a clock that the test moves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from siltstone.cleaner.explaining.last_pass import Predictions
from siltstone.cleaner.history.figures import CleanerFigures
from siltstone.cleaner.history.history import History
from siltstone.cleaner.manager import CleanerManager
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.states import CleaningStates, State
from siltstone.cleaner.threads.cleaner_thread import CleanerServices, CleanerThread
from siltstone.cleaner.threads.pool import CleanerPool
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP
from tests.support.clock import FakeClock
from tests.support.logs import TOPIC_ID, bytes_of
from tests.support.waiting import PATIENCE, equals, wait_until

COMPACT = TopicConfig(cleanup_policy=("compact",))


@contextmanager
def aborted(states: CleaningStates, topic_partition: TopicPartition) -> Iterator[None]:
    """Wait for the end of the work on a partition in a thread; it must end within the block."""
    waiting = threading.Thread(target=states.abort, args=(topic_partition,))
    waiting.start()
    wait_until(lambda: states.get(topic_partition), "an aborted pass", equals(State.ABORTED))
    yield
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


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
            self.paths, ServerConfig(), lambda topic: self.configs.get(topic, COMPACT), self.clock
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
            append_unchecked(log, [(b"k%d" % number, b"value") for number in range(rows)], **fields)
            log.roll()
        self.settle()

    def settle(self) -> None:
        """Do the queued background work."""
        self.logs.background.drain()

    def checkpoint(self, directory: int = 0) -> str:
        """Return the text of the cleaner's checkpoint."""
        path = self.paths[directory] / "cleaner-offset-checkpoint"
        return path.read_text() if path.exists() else ""


def read_all(log: Log) -> list[Record]:
    """Return every data record that a consumer from the start would get."""
    data = memoryview(bytes_of(log, log.log_start_offset))
    found: list[Record] = []
    position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        if not header.is_control:
            found += iterate_records(data[position : position + header.size])
        position += header.size
    return [record for record in found if record.offset >= log.log_start_offset]


class CleanerHome(CompactedLogs):
    """Logs with a cleaner thread whose rounds the test runs, and a pool without running threads.

    ``on_check`` is called whenever a pass asks whether it is still wanted.
    """

    def __init__(self, root: Path, *, directories: int = 1) -> None:
        self.on_check: Callable[[], object] = lambda: None
        super().__init__(root, directories=directories)

    def open(self) -> None:
        """Open the folders, with a new cleaner."""
        super().open()
        self.throttle = Throttle(self.clock)
        self.settings = CleanerSettings.of(
            ServerConfig(log_cleaner_dedupe_buffer_size=2 << 20, log_cleaner_io_buffer_size=1 << 16)
        )
        self.services = self.make_services(
            lambda settings: Cleaner.of(settings, self.clock, self.throttle)
        )
        self.pool = CleanerPool(self.services, self.throttle, self.settings)
        self.thread = self.make_thread()
        check = self.manager.states.check

        def checked(topic_partition: TopicPartition) -> None:
            self.on_check()
            check(topic_partition)

        self.manager.states.check = checked  # type: ignore[method-assign]

    def close(self) -> None:
        """Stop cleanly."""
        self.thread.stop()
        super().close()

    def settings_with(self, **values: Any) -> CleanerSettings:
        """Return the settings with others among them."""
        return replace(self.settings, **values)

    def make_services(self, make_cleaner: Callable[[CleanerSettings], Cleaner]) -> CleanerServices:
        """Return services of a cleaner over these logs."""
        return CleanerServices(
            manager=self.manager,
            clock=self.clock,
            figures=CleanerFigures(),
            history=History(),
            predictions=Predictions(),
            make_cleaner=make_cleaner,
        )

    def make_thread(self) -> CleanerThread:
        """Return a cleaner thread that is not started."""
        return CleanerThread("cleaner-0", self.services, self.settings, lambda *_: None)
