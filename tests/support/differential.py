"""One random log in two folders: Apache Kafka's cleaner works on one of them, ours on the other.

After each pass both folders have the same batches, fields and records, and both cleaners report the
same counts. Sizes of compressed batches may differ, since the codecs' libraries do. The sizes
decide which segments are merged, so segments are only compared while the sizes are the same. Until
the next pass our cleaner may leave an empty segment where Kafka leaves none.
"""

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import PassResult
from siltstone.cleaner.selection import LogSnapshot, find_cleanable
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import CODEC_MASK, SLOT_BYTES
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import PartitionFolder, load_partition
from siltstone.storage.log.services import LogServices
from siltstone.storage.producers import transaction_index
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.topic_partition import TopicPartition
from tests.support.clock import FakeClock
from tests.support.folders import segments
from tests.support.invariants import check_log
from tests.support.kafka_cleaner import Cleaned, KafkaCleaner, Selected
from tests.support.passes import go_on
from tests.support.random_logs import HOUR, NOW, RandomLog

ORDERS = TopicPartition("orders", 0)
LOAD_FACTOR = 0.9
ROUNDS = 3
PASSES = 3
WRITTEN_S = NOW // 1000 - 7200
"""The time of the files, which counts for segments in which nothing is left."""
EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A batch as a pass left it: the fields that consumers, producers and later passes read."""

    base_offset: int
    last_offset: int
    fields: tuple[int, ...]
    records: tuple[Record, ...]

    @classmethod
    def read(cls, data: memoryview) -> "Kept":
        """Return the content of a batch; its compressed bytes may differ between libraries."""
        header = BatchHeader.read(data)
        fields = (
            header.attributes,
            header.leader_epoch,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        records = tuple(iterate_records(data))
        if header.is_log_append_time:
            records = tuple(each._replace(timestamp=header.max_timestamp) for each in records)
        return cls(header.base_offset, header.last_offset, fields, records)


def read_folder(path: Path) -> dict[int, list[Kept]]:
    """Return the batches of a folder by the base offset of their segment."""
    found: dict[int, list[Kept]] = {}
    for log in segments(path):
        data = memoryview(log.read_bytes())
        kept = found[int(log.stem)] = []
        position = 0
        while position < len(data):
            end = position + BatchHeader.read(data, position).size
            kept.append(Kept.read(data[position:end]))
            position = end
    return found


def aborted_in(path: Path) -> set[tuple[int, ...]]:
    """Return the entries of a folder's transaction indexes."""
    return {entry for index in path.glob("*.txnindex") for entry in transaction_index.read(index)}


class OurLog:
    """A folder that our storage opens and our cleaner cleans."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.path = path
        self.config = TopicConfig()
        self.clock = clock
        self.checkpoint: int | None = None
        self._directory = LogDirectory(path.parent)
        self._start = 0
        self._end = 0

    def open(self, config: TopicConfig, *, is_clean: bool, start: int) -> tuple[int, int]:
        """Open the folder and return the log's end and last stable offset."""
        self.config = config
        background = Background()
        services = LogServices(
            clock=self.clock,
            background=background,
            deletions=DelayedDeletions(self.clock, background),
        )
        folder = PartitionFolder(
            topic_partition=ORDERS,
            directory=self._directory,
            path=self.path,
            config=self.config,
            open_files=OpenFiles(),
            producer_expiration_ms=EXPIRATION_MS,
            is_clean=is_clean,
            recovery_point=self._end if is_clean else 0,
            log_start_offset=start,
        )
        self.background = background
        self.log = Log(load_partition(folder, self.clock.now_ms()), services)
        check_log(self.log)
        return self.log.log_end_offset, self.log.last_stable_offset

    def close(self) -> None:
        """Stop cleanly."""
        self._end = self.log.log_end_offset
        self.log.close()
        self.background.close()
        assert self.background.failures == 0

    def clean(self, memory: int, buffer: int) -> tuple[Selected, PassResult | None]:
        """Select, predict and clean; no pass is made where nothing is cleanable."""
        log = self.log
        log.remove_expired_producers(self.clock.now_ms())
        snapshot = LogSnapshot(
            topic_partition=ORDERS,
            config=self.config,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            segments=log.segments,
            checkpoint=self.checkpoint,
        )
        found = find_cleanable(snapshot, self.clock.now_ms())
        selected = Selected(
            found.first_dirty_offset,
            found.first_uncleanable_offset,
            found.clean_bytes,
            found.cleanable_bytes,
        )
        if not found.cleanable_bytes:
            return selected, None
        cleaner = Cleaner(
            clock=self.clock,
            throttle=Throttle(self.clock),
            dedupe_buffer_bytes=memory,
            load_factor=LOAD_FACTOR,
            io_buffer_bytes=buffer,
        )
        work = LogToClean.of(
            log,
            first_dirty_offset=selected.first_dirty_offset,
            first_uncleanable_offset=selected.first_uncleanable_offset,
        )
        prediction = cleaner.dry_run(work, go_on)
        result = cleaner.clean(work, log.replace_segments, go_on)
        cleaner.close()
        assert prediction.result.effect == result.effect
        below = [each for each in log.segments if each.base_offset < work.first_uncleanable_offset]
        assert prediction.bytes_after == sum(each.size for each in below)
        self.checkpoint = result.end_offset
        check_log(log)
        return selected, result


class Twins:
    """The two folders of one seed. `live` writes, opens and cleans both, round after round."""

    def __init__(self, root: Path, seed: int, kafka: KafkaCleaner) -> None:
        self.chance = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.config = TopicConfig(
            cleanup_policy=("compact",),
            segment_index_bytes=self.chance.choice([400, 1 << 20]),
            index_interval_bytes=self.chance.choice([0, 300, 4096]),
        )
        self.configure()
        self.memory = SLOT_BYTES * self.chance.choice([1 << 12, 1 << 12, 5, 9, 14])
        self.buffer = self.chance.choice([1 << 18, 500])
        self.clock = FakeClock(NOW)
        paths = [root / whose / str(ORDERS) for whose in ("written", "kafka", "ours")]
        for path in paths:
            path.mkdir(parents=True)
        self.written, self.theirs, self.ours = paths
        self.source = RandomLog(
            self.written, seed, self.config, keys=self.chance.choice([4, 12, 40])
        )
        self.kafka = kafka
        self.our_log = OurLog(self.ours, self.clock)
        self.their_checkpoint: int | None = None

    @property
    def has_small_indexes(self) -> bool:
        """Tell whether Kafka's recovery may not find room: its cleaner indexes by chunks.

        If a group just fits, Kafka's cleaner may not find room either.
        """
        return self.config.segment_index_bytes < 1000

    def live(self) -> None:
        """Do all rounds; each ends with a clean stop, and begins with a recovery or without one."""
        for number in range(ROUNDS):
            self.write()
            is_clean = number > 0 and (self.has_small_indexes or self.chance.random() < 0.5)
            start = self.source.segments[0].base_offset
            ends = self.our_log.open(self.config, is_clean=is_clean, start=start)
            their_ends = self.kafka.open(
                self.theirs,
                self._kafkas_config(),
                is_clean=is_clean,
                start=start,
                now_ms=self.clock.now_ms(),
            )
            assert ends == their_ends
            self.happened["open transaction"] += ends[0] > ends[1]
            for _ in range(PASSES):
                self.clean()
                self.clock.advance(self.chance.choice([1, 1000, HOUR, 2 * HOUR]))
            self.our_log.close()
            self.kafka.close()
            self.configure()

    def configure(self) -> None:
        """Choose the settings that a topic may change."""
        self.config = replace(
            self.config,
            segment_bytes=self.chance.choice([1500, 4000, 20_000]),
            delete_retention_ms=self.chance.choice([0, 1000, HOUR]),
            min_compaction_lag_ms=self.chance.choice([0, 0, HOUR]),
        )

    def write(self) -> None:
        """Append the same new segments to both logs."""
        source = self.source
        known = 0
        if source.segments[-1].size:  # where the snapshot of the clean stop is
            known = len(source.segments)
            source.begin_segment(source.segments[-1].next_offset())
        for _ in range(self.chance.choice([10, 25, 40])):
            source.step()
        source.data()
        source.seal()
        for segment in source.segments[known:]:
            for path in self.written.glob(f"{segment.base_offset:020d}.*"):
                os.utime(path, (WRITTEN_S, WRITTEN_S))
                shutil.copy2(path, self.theirs)
                shutil.copy2(path, self.ours)

    def clean(self) -> None:
        """Make a pass over each folder, and compare the reports and the folders.

        Often the checkpoint is lost: then all is cleaned again, horizons included.
        """
        if self.chance.random() < 0.5:
            self.their_checkpoint = self.our_log.checkpoint = None
        are_alike = _sizes(self.theirs) == _sizes(self.ours)
        before = read_folder(self.ours)
        their_selected, cleaned = self.kafka.clean(
            self.their_checkpoint,
            now_ms=self.clock.now_ms(),
            memory=self.memory,
            load_factor=LOAD_FACTOR,
            buffer=self.buffer,
        )
        selected, result = self.our_log.clean(self.memory, self.buffer)
        assert selected[:2] == their_selected[:2]
        if are_alike:
            assert selected == their_selected
        assert (cleaned is None) == (result is None)
        if cleaned is None or result is None:
            self.happened["nothing to clean"] += 1
            return
        self.their_checkpoint = cleaned.end_offset
        self.happened["pass"] += 1
        self.happened["alike"] += are_alike
        self._compare(cleaned, result, are_alike=are_alike)
        self._count(before, result)

    def _compare(self, cleaned: Cleaned, result: PassResult, *, are_alike: bool) -> None:
        assert cleaned[:2] == (result.end_offset, result.map_keys)
        assert cleaned[3:] == (result.records_written, result.invalid_records)
        theirs, ours = read_folder(self.theirs), read_folder(self.ours)
        more = ours.keys() - theirs.keys()
        if are_alike:
            assert list(theirs) == [base for base in ours if base not in more]
            assert not any(ours[base] for base in more)
        all_theirs = [each for kept in theirs.values() for each in kept]
        all_ours = [each for kept in ours.values() for each in kept]
        assert all_ours == all_theirs
        self.happened["empty segment of ours"] += len(more)
        assert aborted_in(self.theirs) == aborted_in(self.ours)

    def _count(self, before: dict[int, list[Kept]], result: PassResult) -> None:
        """Note the cases in this pass, so that a test can check that every case occurs."""
        for reason, dropped in result.dropped.items():
            self.happened[str(reason)] += dropped.records
        self.happened["full map"] += result.is_map_full
        self.happened["horizon set"] += result.horizons_set
        self.happened["rebuilt"] += result.batches_rebuilt
        self.happened["emptied"] += result.batches_emptied
        self.happened["merged"] += any(len(group.inputs) > 1 for group in result.groups)
        for kept in before.values():
            for batch in kept:
                self.happened[f"codec {batch.fields[0] & CODEC_MASK}"] += 1
                self.happened["record"] += len(batch.records)

    def _kafkas_config(self) -> dict[str, object]:
        config = self.config
        return {
            "cleanup.policy": "compact",
            "internal.segment.bytes": config.segment_bytes,
            "segment.index.bytes": config.segment_index_bytes,
            "index.interval.bytes": config.index_interval_bytes,
            "delete.retention.ms": config.delete_retention_ms,
            "min.compaction.lag.ms": config.min_compaction_lag_ms,
        }


def _sizes(path: Path) -> list[tuple[str, int]]:
    sizes = [(log.name, log.stat().st_size) for log in segments(path)]
    return [(name, size) for name, size in sizes if size]
