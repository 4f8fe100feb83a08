"""Log directories that no broker serves, with made-up partitions, for readers beside a broker."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from siltstone.config.topic import TopicConfig
from siltstone.pipeline.columns import STANDARD
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.transports import open_source
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import make_batch
from tests.support.segments import append, append_next, make_segment


class Archive:
    """A log directory and the partitions that a test puts into it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, topic: str = "t", partition: int = 0) -> Path:
        """Return the folder of a partition."""
        return self.root / str(TopicPartition(topic, partition))

    def fill(
        self,
        segments: Iterable[Iterable[bytearray]],
        *,
        topic: str = "t",
        partition: int = 0,
        topic_id: int = 7,
        interval: int = 4096,
    ) -> Path:
        """Write segments of batches one after the other, from offset 0 on; return the folder."""
        folder = self.folder(topic, partition)
        folder.mkdir(parents=True)
        PartitionMetadata(topic_id=UUID(int=topic_id)).write(folder)
        config = TopicConfig(index_interval_bytes=interval)
        offset = 0
        for batches in segments:
            segment = make_segment(folder, config, base_offset=offset)
            append_next(segment, batches, first=offset)
            offset = segment.next_offset()
            close(segment)
        return folder

    def fill_plain(
        self, count: int, per_batch: int = 10, batches: int = 20, **where: object
    ) -> Path:
        """Write ``count`` records k0, k1, … a second apart, in segments of so many batches."""
        made = [
            make_batch(
                [(b"k%d" % index, b"v%d" % index) for index in range(first, first + per_batch)],
                timestamp=1_700_000_000_000 + first * 1000,
                step_ms=1000,
            )
            for first in range(0, count, per_batch)
        ]
        cut = [made[start : start + batches] for start in range(0, len(made), batches)]
        return self.fill(cut, **where)  # type: ignore[arg-type]

    def fill_exact(
        self, batches: Iterable[bytearray], aborted: Iterable[AbortedTransaction] = ()
    ) -> Path:
        """Write one segment of batches whose offsets are right already."""
        folder = self.folder()
        folder.mkdir(parents=True)
        segment = make_segment(folder, TopicConfig(index_interval_bytes=0))
        for batch in batches:
            append(segment, batch)
        for each in aborted:
            segment.append_aborted(each)
        close(segment)
        return folder

    def options(self, **options: str) -> ReadOptions:
        """Return options that read the topic ``t`` here."""
        return ReadOptions.parse({"subscribe": "t", "archive": str(self.root), **options})

    def plan(self, **options: str) -> list[Split]:
        """Return the splits of a read."""
        with open_source(self.options(**options)) as source:
            return source.plan(source.view())

    def read(
        self,
        columns: tuple[str, ...] = STANDARD,
        options: Mapping[str, str] | None = None,
        *,
        scanned: Scanned | None = None,
    ) -> pa.Table:
        """Return all records of a read."""
        return read_splits(self.plan(**(options or {})), columns, scanned=scanned)


def read_splits(
    splits: Iterable[Split], columns: tuple[str, ...] = STANDARD, *, scanned: Scanned | None = None
) -> pa.Table:
    """Return all records of splits, one after the other."""
    found = [batch for split in splits for batch in scan(split, columns, scanned=scanned)]
    return pa.Table.from_batches(found) if found else pa.table({name: [] for name in columns})


def close(segment: LogSegment) -> None:
    """Write a segment's indexes, as a broker does at its stop."""
    segment.seal()
    segment.flush()


def positions(folder: Path, base_offset: int = 0) -> list[int]:
    """Return where the batches of a segment begin."""
    data = (folder / f"{base_offset:020d}.log").read_bytes()
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += BatchHeader.read(data, at).size
    return found


def damage(path: Path, position: int, value: int | None = None) -> None:
    """Flip the bits of a byte of a file, or set it."""
    data = bytearray(path.read_bytes())
    data[position] = data[position] ^ 0xFF if value is None else value
    path.write_bytes(data)
