"""The batches that a pass over a log must leave, by `tests.support.pass_rules`."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from siltstone.cleaner.one_pass.grouping import group_segments
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.protocol.core.constants import DELETE_HORIZON
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.segment.readable import ReadableSegment
from tests.support.pass_rules import Fate, Rules, Verdict, judge
from tests.support.pass_transactions import CleanedTransactionMetadata

CODEC = 7


@dataclass
class Expected:
    """The new segments' bytes by group, the end offset, and the dropped records by fate."""

    end_offset: int
    map_keys: int
    segments: list[bytes] = field(default_factory=list)
    dropped: dict[Fate, int] = field(default_factory=dict)
    kept: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)


def batches_of(segment: ReadableSegment) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield header and bytes of each batch."""
    for position, header in segment.batches():
        yield header, segment.read(position, header.size)


def map_offsets(log: LogToClean, usable: int) -> tuple[dict[bytes, int], int]:
    """Return the offset map and its latest offset."""
    offsets: dict[bytes, int] = {}
    latest = log.first_dirty_offset - 1
    transactions = CleanedTransactionMetadata(log.aborted)
    bounds = [segment.base_offset for segment in log.segments[1:]]
    bounds.append(log.first_uncleanable_offset)
    for segment, bound in zip(log.segments, bounds, strict=True):
        if bound <= log.first_dirty_offset:
            continue
        for header, batch in batches_of(segment):
            if header.last_offset < log.first_dirty_offset and not header.is_transactional:
                continue
            marker = read_marker(batch) if header.is_control else None
            is_discardable = transactions.is_discardable(header, marker)
            if not header.is_control and not is_discardable:
                for record in iterate_records(batch):
                    if record.key is None or record.offset < log.first_dirty_offset:
                        continue
                    if len(offsets) >= usable:
                        return offsets, latest
                    offsets[record.key] = latest = record.offset
            if header.last_offset >= log.first_dirty_offset:
                latest = header.last_offset
        latest = bound - 1
    return offsets, latest


def expect(log: LogToClean, *, usable: int, now_ms: int) -> Expected:
    """Return what a pass must do."""
    offsets, latest = map_offsets(log, usable)
    rules = Rules(
        latest_offset=latest,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        high_watermark=log.high_watermark,
        producers=log.producers,
    )
    transactions = CleanedTransactionMetadata(log.aborted)
    expected = Expected(latest + 1, len(offsets))
    groups = group_segments(
        log.segments,
        log.config,
        end_offset=latest + 1,
        first_uncleanable_offset=log.first_uncleanable_offset,
    )
    for group in groups:
        output = bytearray()
        next_offset = group[0].base_offset
        filled = [segment for segment in group if segment.size]
        for segment in group:
            for header, batch in batches_of(segment):
                marker = read_marker(batch) if header.is_control else None
                is_discardable = transactions.is_discardable(header, marker)
                records = list(iterate_records(batch))
                verdict = judge(
                    header,
                    records,
                    rules=rules,
                    find_offset=offsets.get,
                    is_discardable=is_discardable,
                )
                for fate in verdict.fates:
                    expected.dropped[fate] = expected.dropped.get(fate, 0) + 1
                expected.kept += verdict.fates.count(Fate.KEPT)
                new = written(header, batch, records, verdict)
                if new:
                    next_offset = header.next_offset
                output += new
        expected.segments.append(bytes(output))
        if len(filled) > 1 and next_offset <= filled[-1].base_offset:
            expected.segments.append(b"")
    expected.dropped.pop(Fate.KEPT, None)
    expected.aborted = [(each.producer_id, each.first_offset) for each in transactions.kept]
    return expected


def written(header: BatchHeader, batch: bytes, records: list[Record], verdict: Verdict) -> bytes:
    """Return what is written of a batch."""
    if verdict.is_unchanged:
        return batch
    same = {
        "leader_epoch": header.leader_epoch,
        "last_offset_delta": header.last_offset_delta,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
    }
    flags = header.attributes & ~CODEC & ~DELETE_HORIZON
    if not verdict.keeps_records:
        if not verdict.is_written:
            return b""
        empty = build_batch(
            [],
            base_offset=header.base_offset,
            flags=flags,
            max_timestamp=header.max_timestamp,
            **same,
        )
        return bytes(empty)
    kept = [
        record for record, fate in zip(records, verdict.fates, strict=True) if fate is Fate.KEPT
    ]
    base_timestamp = kept[0].timestamp
    if verdict.horizon_ms is not None:
        base_timestamp = verdict.horizon_ms
        flags |= DELETE_HORIZON
    largest = max([-1, *(record.timestamp for record in kept)])
    rebuilt = build_batch(
        kept,
        base_offset=header.base_offset,
        codec=header.codec,
        flags=flags,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else largest,
        **same,
    )
    return bytes(rebuilt)
