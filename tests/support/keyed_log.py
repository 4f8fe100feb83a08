"""An archive of random keys and tombstones, and a dict of the expected last values."""

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.archives import close, damage, positions
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.segments import append_next

SEGMENT_BYTES = 20_000


@dataclass(slots=True)
class _Partition:
    folder: Path
    end: int = 0
    values: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)


class KeyedLog:
    """Topic ``t`` of some partitions, which can grow between two readings."""

    def __init__(self, root: Path, partitions: int = 1, seed: int = 1) -> None:
        self.root = root
        self._chance = random.Random(seed)
        self._config = TopicConfig(index_interval_bytes=512)
        self._clock_ms = TIMESTAMP
        self.records: list[tuple[int, int, bytes, bytes | None]] = []
        """Partition, offset, key and value of all that have a key."""
        self._partitions = [
            _Partition(root / str(TopicPartition("t", number))) for number in range(partitions)
        ]
        self.remake(topic_id=7)

    def remake(self, topic_id: int = 8) -> None:
        """Delete the topic and create an empty one of its name."""
        self.records.clear()
        for partition in self._partitions:
            shutil.rmtree(partition.folder, ignore_errors=True)
            partition.folder.mkdir(parents=True)
            PartitionMetadata(topic_id=UUID(int=topic_id)).write(partition.folder)
            partition.end, partition.values = 0, {}
            close(
                LogSegment(
                    partition.folder, 0, self._config, now_ms=TIMESTAMP, open_files=OpenFiles()
                ).create()
            )

    def write(self, count: int) -> None:
        """Append records of a few hundred keys, one in ten a tombstone, in batches."""
        while count > 0:
            size = min(count, self._chance.randrange(1, 40))
            count -= size
            partition = self._chance.randrange(len(self._partitions))
            rows: list[Row] = []
            for _ in range(size):
                key = b"k%d" % self._chance.randrange(400)
                value = None if self._chance.random() < 0.1 else self._chance.randbytes(9).hex()
                rows.append((key, None if value is None else value.encode()))
            self._append(self._partitions[partition], rows)

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Append one record and return its offset."""
        where = self._partitions[partition]
        self._append(where, [(key, value)])
        return where.end - 1

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition."""
        return {number: each.end for number, each in enumerate(self._partitions)}

    def live(self) -> dict[tuple[int, bytes], bytes]:
        """Return the last value of each key of each partition, without those that are deleted."""
        return {
            (number, key): value
            for number, partition in enumerate(self._partitions)
            for key, (_, value) in partition.values.items()
            if value is not None
        }

    def live_by_time(self) -> dict[bytes, bytes]:
        """Return the newest value of each key of the topic."""
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for partition in self._partitions:
            for key, at in partition.values.items():
                newest[key] = max(newest.get(key, (-1, None)), at, key=lambda pair: pair[0])
        return {key: value for key, (_, value) in newest.items() if value is not None}

    def damage(self, partition: int) -> None:
        """Flip a bit in the middle of the last segment."""
        folder = self._partitions[partition].folder
        base = self._last_base(folder)
        place = positions(folder, base)
        damage(folder / files.segment_file_name(base), place[len(place) // 2] + 70)

    def _append(self, partition: _Partition, rows: list[Row]) -> None:
        base = self._last_base(partition.folder)
        segment = LogSegment(
            partition.folder, base, self._config, now_ms=TIMESTAMP, open_files=OpenFiles()
        ).load()
        if segment.size >= SEGMENT_BYTES:
            close(segment)
            segment = LogSegment(
                partition.folder,
                partition.end,
                self._config,
                now_ms=TIMESTAMP,
                open_files=OpenFiles(),
            ).create()
        batch = make_batch(rows, timestamp=self._clock_ms)
        append_next(segment, [batch], first=partition.end)
        close(segment)
        for key, value in rows:
            if key is not None:
                partition.values[key] = (self._clock_ms, value)
                number = self._partitions.index(partition)
                self.records.append((number, partition.end, key, value))
            self._clock_ms += 1
            partition.end += 1

    def _last_base(self, folder: Path) -> int:
        return max(int(path.stem) for path in folder.glob("*.log"))
