"""Reads a partition folder that no broker has open, for selection and dry runs."""

from dataclasses import dataclass
from pathlib import Path

from siltstone.cleaner.selection import LogSnapshot
from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.log.producer_recovery import replay_segment
from siltstone.storage.log.reader import PartitionReader
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.producers.snapshot import CorruptSnapshot
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedLog:
    """The log of a folder.

    Its producers come from the newest snapshot and from the batches after that snapshot.
    """

    topic_partition: TopicPartition
    path: Path
    config: TopicConfig
    log_start_offset: int
    log_end_offset: int
    segments: tuple[ReadableSegment, ...]
    producers: ProducerStateManager

    def snapshot(self, checkpoint: int | None) -> LogSnapshot:
        """Return the log as selection sees it."""
        first_unstable = self.producers.first_unstable_offset
        return LogSnapshot(
            topic_partition=self.topic_partition,
            config=self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            last_stable_offset=self.log_end_offset
            if first_unstable is None
            else max(first_unstable, self.log_start_offset),
            segments=self.segments,
            checkpoint=checkpoint,
        )


def read_stopped_log(
    path: Path, config: TopicConfig, log_start_offset: int | None, now_ms: int
) -> StoppedLog:
    """Read a partition folder. Blocks.

    Raises:
        ValueError: The folder does not have the name of a partition folder, or has no segment.
        CorruptMessage: The end of the log cannot be found; a start of the broker recovers the log.
    """
    reader = PartitionReader(path)
    if not reader.segments:
        raise ValueError(f"{path} holds no segment")
    start = max(log_start_offset or 0, reader.start_offset)
    end = reader.next_offset()
    return StoppedLog(
        topic_partition=reader.topic_partition,
        path=path,
        config=config,
        log_start_offset=start,
        log_end_offset=max(start, end),
        segments=reader.segments,
        producers=_read_producers(reader, start, end, now_ms),
    )


def _read_producers(
    reader: PartitionReader, start: int, end: int, now_ms: int
) -> ProducerStateManager:
    producers = ProducerStateManager(reader.directory, reader.topic_partition)
    offset, entries = _read_snapshot(reader.directory, start, end)
    producers.install(entries, offset, now_ms)
    for segment in reader.segments:
        replay_segment(producers, segment, offset, end)
    return producers


def _read_snapshot(directory: Path, start: int, end: int) -> tuple[int, dict[int, ProducerEntry]]:
    """Return the offset and the producers of the newest usable snapshot, or the log's start."""
    offsets = files.list_bases(directory, files.SNAPSHOT)
    for offset in reversed([each for each in offsets if start < each <= end]):
        path = directory / files.segment_file_name(offset, files.SNAPSHOT)
        try:
            return offset, producer_snapshot.decode(files.read_bytes(path))
        except (OSError, CorruptSnapshot):
            continue
    return start, {}
