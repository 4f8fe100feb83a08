"""The rules by which a pass keeps records, in readable Python (docs/compaction.md).

Kafka: ``Cleaner.checkBatchRetention``, ``shouldRetainRecord``, ``MemoryRecords.filterTo``. The
kernels do the same much faster; tests compare both, and this file with Kafka's tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from siltstone.cleaner.one_pass.log_to_clean import LastOfProducer
from siltstone.protocol.core.constants import DELETE_HORIZON
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import Record

FindOffset = Callable[[bytes], int | None]
"""Returns the last offset of a key, None if the map does not have it."""


class BatchRetention(Enum):
    """The fate of a batch of which no record stays."""

    DELETE = "goes unread"
    DELETE_EMPTY = "goes"
    RETAIN_EMPTY = "leaves its header"


class Fate(Enum):
    """The fate of a record, with its rule."""

    KEPT = "kept"
    SUPERSEDED = "superseded"
    TOMBSTONE = "tombstone_expired"
    MARKER = "marker"
    ABORTED = "aborted"
    NULL_KEY = "null_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The facts that are the same for all batches of a pass.

    ``latest_offset`` is the last offset that the map covers, ``now_ms`` the start of the pass.
    """

    latest_offset: int
    now_ms: int
    delete_retention_ms: int
    high_watermark: int
    producers: Sequence[LastOfProducer] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The part of a batch that is written: nothing, its header, or these records.

    ``is_unchanged``: the very bytes. ``horizon_ms`` is the delete horizon that the written batch
    has, None if it has none.
    """

    fates: tuple[Fate, ...]
    retention: BatchRetention
    is_unchanged: bool = False
    horizon_ms: int | None = None

    @property
    def keeps_records(self) -> bool:
        """Tell whether any record stays."""
        return Fate.KEPT in self.fates

    @property
    def is_written(self) -> bool:
        """Tell whether anything stays."""
        return self.keeps_records or self.retention is BatchRetention.RETAIN_EMPTY


def judge(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    rules: Rules,
    find_offset: FindOffset,
    is_discardable: bool,
) -> Verdict:
    """Decide on a batch; `transactions` says whether it ``is_discardable``."""
    has_expired = has_expired_horizon(header, rules.now_ms)
    discards_all = is_discardable and (has_expired or not header.is_control)
    retention = batch_retention(header, rules, discards_all=discards_all)
    fates = tuple(
        record_fate(header, record, rules=rules, find_offset=find_offset, discards_all=discards_all)
        for record in records
    )
    kept = [record for record, fate in zip(records, fates, strict=True) if fate is Fate.KEPT]
    has_tombstone = any(record.value is None for record in kept)
    is_orphaned_marker = is_discardable and header.is_control
    needs_horizon = (has_tombstone or is_orphaned_marker) and not header.has_delete_horizon
    horizon_ms = header.base_timestamp if header.has_delete_horizon else None
    if needs_horizon and kept:
        horizon_ms = rules.now_ms + rules.delete_retention_ms
    return Verdict(
        fates=fates,
        retention=retention,
        is_unchanged=bool(kept) and len(kept) == len(records) and not needs_horizon,
        horizon_ms=horizon_ms if kept else None,
    )


def batch_retention(header: BatchHeader, rules: Rules, *, discards_all: bool) -> BatchRetention:
    """Decide what happens if no record stays.

    From the last batch of an active producer recovery learns the sequence (KAFKA-5490), and from
    the last batch of the log its end (KAFKA-17076, KAFKA-20452).
    """
    if is_last_of_producer(header, rules.producers):
        return BatchRetention.RETAIN_EMPTY
    if header.next_offset == rules.high_watermark:
        return BatchRetention.RETAIN_EMPTY
    return BatchRetention.DELETE if discards_all else BatchRetention.DELETE_EMPTY


def is_last_of_producer(header: BatchHeader, producers: Sequence[LastOfProducer]) -> bool:
    """Tell whether a batch is the newest data, or the newest marker, of an active producer."""
    for producer in producers:
        if producer.producer_id == header.producer_id >= 0:
            if producer.last_data_offset >= 0:
                return header.last_offset == producer.last_data_offset
            return header.is_control and header.producer_epoch == producer.epoch
    return False


def record_fate(
    header: BatchHeader,
    record: Record,
    *,
    rules: Rules,
    find_offset: FindOffset,
    discards_all: bool,
) -> Fate:
    """Decide on a record; the first rule that applies wins."""
    if discards_all:
        return Fate.MARKER if header.is_control else Fate.ABORTED
    if header.is_control or record.offset > rules.latest_offset:
        return Fate.KEPT
    if record.key is None:
        return Fate.NULL_KEY
    last_offset = find_offset(record.key)
    if last_offset is not None and last_offset > record.offset:
        return Fate.SUPERSEDED
    if record.value is None and has_expired_horizon(header, rules.now_ms):
        return Fate.TOMBSTONE
    return Fate.KEPT


def has_expired_horizon(header: BatchHeader, now_ms: int) -> bool:
    """Tell whether a batch has a delete horizon that is reached (KIP-534)."""
    return header.attributes & DELETE_HORIZON != 0 and header.base_timestamp <= now_ms
