"""A broker with several log directories, and a partition that moves between them."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from siltstone.broker.topics.cleaning import Cleaning
from siltstone.config.topic import FOREVER
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.log import Log
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk
from tests.support.waiting import equals, give_turns_until

ORDERS = TopicPartition("orders", 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
STALLED = {RATE.replace(".", "_"): "1"}
"""With a clock that stands still, no byte is copied."""


class Directories(ServicesOnDisk):
    """Some directories; the first partition is in ``first``, and moves to ``other``."""

    def __init__(self, root: Path, directories: int = 2, /, **settings: str) -> None:
        super().__init__(root, directories=directories, **settings)

    async def open(self) -> Self:
        """Start everything in the order of the server."""
        await super().open()
        return self

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def first(self) -> LogDirectory:
        """Return the directory where the first partition is made."""
        return self.services.logs.directories[0]

    @property
    def other(self) -> LogDirectory:
        """Return the second one."""
        return self.services.logs.directories[1]

    @property
    def cleaning(self) -> Cleaning:
        """Return the cleaner, whose threads do not run."""
        return self.cleaner

    def log(self) -> Log:
        """Return the log of the partition."""
        return self.services.logs.logs[ORDERS]

    def path(self, name: str) -> Path:
        """Return a folder in the second directory."""
        return self.paths[1] / name

    async def create(self, **overrides: str) -> Log:
        """Create the topic with the partition, in ``first``."""
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        await self.services.topics.create(ORDERS.topic, 1, named)
        log = self.log()
        assert log.directory is self.first
        return log

    async def ask(self, directory: LogDirectory) -> None:
        """Move the partition to a directory."""
        await self.services.moves.alter(ORDERS, str(directory.path))

    async def move(self, directory: LogDirectory | None = None) -> None:
        """Move the partition to a directory, by default ``other``, and wait for the end."""
        await self.ask(directory or self.other)
        await self.settle()

    async def go_on(self) -> None:
        """Remove the throttle and wait until no partition moves."""
        await self.services.settings.alter(broker={RATE: str(FOREVER)})
        await self.settle()

    async def settle(self) -> None:
        """Wait until no partition moves."""
        await give_turns_until(lambda: len(self.services.moves), "no move that is left", equals(0))

    async def describe(self) -> list[dict[TopicPartition, tuple[int, int, bool]]]:
        """Return for each directory the sizes and lags that DescribeLogDirs tells."""
        answer: Any = await ask(self, 35, request(35, 5))
        return [
            {
                TopicPartition(topic.name, each.partition_index): (
                    each.partition_size,
                    each.offset_lag,
                    each.is_future_key,
                )
                for topic in result.topics
                for each in topic.partitions
            }
            for result in answer.results
        ]

    def cleaner_checkpoint(self, directory: LogDirectory, offset: int) -> None:
        """Set the cleaner's checkpoint of the partition."""
        checkpoints = self.cleaning.manager.checkpoints
        checkpoints.update(directory.path, {ORDERS: offset}, {ORDERS})

    def place_copy(self, folder: Path, segments: Iterable[LogSegment]) -> None:
        """Leave the files of a move that was interrupted after some segments."""
        folder.mkdir()
        PartitionMetadata(topic_id=self.log().topic_id).write(folder)
        (folder / files.MOVED).touch()
        for segment in segments:
            for kind in files.SEGMENT_KINDS[:3]:
                shutil.copy2(segment.files.path(kind), folder)


def folders(directory: LogDirectory) -> list[str]:
    """Return the names of the partition folders in a directory."""
    return sorted(
        each.name for each in directory.path.iterdir() if each.is_dir() and each.name[0] != "."
    )


def open_files(folder: Path) -> list[str]:
    """Return the partition files below a folder that this process has open."""
    names = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(str(each.readlink()))
    return [name for name in names if name.startswith(f"{folder}/{ORDERS}")]


def copies(root: Path) -> list[str]:
    """Return the names of the copies in all directories."""
    return [each.name for each in root.glob("*/*-future")]
