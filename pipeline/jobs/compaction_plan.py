"""``plan``: the effect of compaction, and the memory it needs, computed without changing the log.

One task a partition reads keys and sizes. It takes about 60 bytes of memory a record, however large
the values are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.command.progress import seconds_text, size
from siltstone.pipeline.engine import Engine
from siltstone.pipeline.jobs.reading import committed, moment_of
from siltstone.pipeline.planning.manifest import PinnedPartition
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan

SLOT_BYTES: Final = 24
"""The bytes of a key in the cleaner's offset map: a hash of 16 bytes and an offset."""
LOAD_FACTOR: Final = 0.9
DEDUPE_BUFFER_BYTES: Final = 128 << 20
"""Kafka's default of log.cleaner.dedupe.buffer.size."""
CLEANING_BYTES_PER_SECOND: Final = 200 << 20
_COLUMNS: Final = ("key", "value", "offset", "timestampMs")
_RECORD_OVERHEAD: Final = 10
_SKEWED: Final = 0.1
_MAX_DUPLICATED: Final = 0.5
_DAY_MS: Final = 86_400_000
_REMOTE: Final = (
    "sizes are those of records outside of batches: files are not seen over the network"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionForecast:
    """A partition before compaction and, as an estimate, after it."""

    topic: str
    partition: int
    records: int
    keys: int
    without_key: int
    size: int
    live_bytes: int
    tombstones: int
    tombstones_expired: int
    """Judged by their timestamps; only those that are the last of their key."""
    tombstones_within_a_day: int
    most_of_one_key: int
    duplicate_ratio: float
    map_bytes: int
    passes: int

    def line(self) -> str:
        """Return it in words."""
        return (
            f"{self.topic}-{self.partition}: {self.records:,} records of {self.keys:,} keys, "
            f"{self.duplicate_ratio:.0%} duplicates; {size(self.size)} now, about "
            f"{size(self.live_bytes)} after; {self.tombstones:,} tombstones, "
            f"{self.tombstones_expired:,} of them past delete.retention.ms; map "
            f"{size(self.map_bytes)}, {self.passes} passes; most of one key "
            f"{self.most_of_one_key:,}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """All partitions, and the settings that suit them."""

    partitions: tuple[PartitionForecast, ...]
    settings: dict[str, str]
    notes: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield it in words."""
        for partition in self.partitions:
            yield partition.line()
        yield from self.notes
        for name, value in self.settings.items():
            yield f"set {name}={value}"
        total = sum(partition.size for partition in self.partitions)
        yield f"plan: read {size(total)} in {seconds_text(self.seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTask:
    """A partition and its splits in order."""

    partition: PinnedPartition
    splits: tuple[Split, ...]


def plan_compaction(engine: Engine, options: Mapping[str, str]) -> CompactionPlan:
    """Read topics and return the effect of a compaction."""
    began = engine.clock.monotonic()
    read = committed(options)
    with moment_of(read, engine.clock) as moment:
        splits = moment.plan_by_partition()
        tasks = [
            ForecastTask(partition=partition, splits=splits.get(partition.topic_partition, ()))
            for partition in moment.view.partitions
        ]
        work = partial(forecast, moment.view.taken_at_ms)
        found = engine.run("plan", tasks, work, lambda task: task.partition.size)
        is_remote = moment.transport == "fetch"
    settings, notes = _propose(found)
    if is_remote:
        notes = (*notes, _REMOTE)
    return CompactionPlan(
        partitions=tuple(found),
        settings=settings,
        notes=notes,
        seconds=engine.clock.monotonic() - began,
    )


def forecast(now_ms: int, task: ForecastTask) -> PartitionForecast:
    """Read one partition."""
    table = pa.Table.from_batches(_slim(task.splits), schema=_SLIM)
    keyed = table.filter(table["key"].is_valid())
    groups = (
        keyed.select(["key", "offset"])
        .group_by("key", use_threads=False)
        .aggregate([("offset", "max"), ("offset", "count")])
    )
    last_offsets = groups["offset_max"].combine_chunks()
    latest = keyed.filter(pc.is_in(keyed["offset"], value_set=last_offsets))
    stones = latest.filter(latest["is_tombstone"])
    expires = now_ms - task.partition.delete_retention_ms
    expired = pc.sum(pc.less(stones["timestampMs"], expires)).as_py() or 0
    soon = pc.sum(pc.less(stones["timestampMs"], expires + _DAY_MS)).as_py() or 0
    raw = pc.sum(table["bytes"]).as_py() or 0
    live = (pc.sum(latest["bytes"]).as_py() or 0) - (
        pc.sum(stones.filter(pc.less(stones["timestampMs"], expires))["bytes"]).as_py() or 0
    )
    size_now = task.partition.size or raw  # over the network the files cannot be seen
    packed = size_now / raw if raw else 1.0  # batch headers and compression
    keys = groups.num_rows
    map_bytes = math.ceil(keys / LOAD_FACTOR) * SLOT_BYTES
    return PartitionForecast(
        topic=task.partition.topic,
        partition=task.partition.partition,
        records=table.num_rows,
        keys=keys,
        without_key=table.num_rows - keyed.num_rows,
        size=size_now,
        live_bytes=int(live * packed),
        tombstones=stones.num_rows,
        tombstones_expired=expired,
        tombstones_within_a_day=soon - expired,
        most_of_one_key=pc.max(groups["offset_count"]).as_py() or 0,
        duplicate_ratio=1 - keys / keyed.num_rows if keyed.num_rows else 0.0,
        map_bytes=map_bytes,
        passes=max(1, math.ceil(map_bytes / DEDUPE_BUFFER_BYTES)),
    )


_SLIM: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("offset", pa.int64()),
        ("timestampMs", pa.int64()),
        ("is_tombstone", pa.bool_()),
        ("bytes", pa.int64()),
    ]
)


def _slim(splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Yield rows with the sizes of values instead of the values."""
    for split in splits:
        for batch in scan(split, _COLUMNS):
            lengths = [
                pc.fill_null(pc.binary_length(batch[name]), 0).cast(pa.int64())
                for name in ("key", "value")
            ]
            columns = [
                batch["key"],
                batch["offset"],
                batch["timestampMs"],
                batch["value"].is_null(),
                pc.add(pc.add(*lengths), _RECORD_OVERHEAD),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_SLIM)


def _propose(found: Sequence[PartitionForecast]) -> tuple[dict[str, str], tuple[str, ...]]:
    settings: dict[str, str] = {}
    notes = []
    needed = max((each.map_bytes for each in found), default=0)
    if needed > DEDUPE_BUFFER_BYTES:
        settings["log.cleaner.dedupe.buffer.size"] = str(1 << (needed - 1).bit_length())
        notes.append(
            f"the offset map of the largest partition takes {size(needed)}, more than the "
            f"{size(DEDUPE_BUFFER_BYTES)} of log.cleaner.dedupe.buffer.size: it takes several "
            "passes"
        )
    for each in found:
        name = f"{each.topic}-{each.partition}"
        if each.without_key:
            notes.append(
                f"{each.without_key:,} records of {name} have no key; compaction drops them"
            )
        if each.records and each.most_of_one_key > _SKEWED * each.records:
            notes.append(
                f"one key of {name} has {each.most_of_one_key / each.records:.0%} of its records"
            )
    ratio = max((each.duplicate_ratio for each in found), default=0.0)
    if ratio > _MAX_DUPLICATED:
        settings["min.cleanable.dirty.ratio"] = "0.3"
    elif found and ratio < _SKEWED:
        settings["min.cleanable.dirty.ratio"] = "0.8"
    seconds = sum(2 * each.size + each.live_bytes for each in found) / CLEANING_BYTES_PER_SECOND
    notes.append(
        f"a first pass over all of it takes about {seconds_text(seconds)} at "
        f"{size(CLEANING_BYTES_PER_SECOND)}/s"
    )
    return settings, tuple(notes)
