"""Compares two moments of one compacted partition by the four laws of the cleaner.

1. No latest value is lost: the record that was the last of its key still exists, or a newer one of
the key does, or it was a tombstone whose time had come. 2. Below the cleaner's checkpoint a key has
at most one record. 3. No record has moved or changed: each record below the first moment's end
existed before. 4. No key comes back: where a newer record was, no older one is the last now.

Records below the second log start offset may be gone: retention or DeleteRecords took them. Rows
are those of committed data: columns key, value, offset, timestampMs, headers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.audit.findings import Findings, Kind
from siltstone.pipeline.latest import LatestRows

COLUMNS: Final = ("key", "value", "offset", "timestampMs", "headers")

MayExpire = Callable[[int], bool]
"""Whether the tombstone at an offset of the first moment may be gone at the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A partition at one moment; ``start`` is its log start offset, ``end`` is exclusive."""

    table: pa.Table
    start: int
    end: int
    first_dirty_offset: int = 0


def check_laws(before: Rows, after: Rows, may_expire: MayExpire, name: str) -> Findings:
    """Return what breaks a law; ``name`` is the partition's, for the sentences."""
    findings = Findings()
    _check_one_per_key(after, findings, name)
    _check_unmoved(before, after, findings, name)
    _check_latest(before, after, may_expire, findings, name)
    return findings


def _check_one_per_key(rows: Rows, findings: Findings, name: str) -> None:
    table = _keyed(rows.table)
    table = table.filter(pc.less(table["offset"], rows.first_dirty_offset))
    counts = (
        table.select(["key", "offset"])
        .group_by("key", use_threads=False)
        .aggregate([("offset", "count"), ("offset", "max")])
    )
    for offset in _listed(counts.filter(pc.greater(counts["offset_count"], 1))["offset_max"]):
        findings.add(
            Kind.DOUBLED_KEY,
            f"the key at offset {offset} of {name} exists several times below the cleaner's "
            f"checkpoint {rows.first_dirty_offset}",
            offset=offset,
        )


def _check_unmoved(before: Rows, after: Rows, findings: Findings, name: str) -> None:
    survivors = after.table.filter(pc.less(after.table["offset"], before.end))
    places = pc.index_in(survivors["offset"], value_set=before.table["offset"].combine_chunks())
    for offset in _listed(survivors.filter(places.is_null())["offset"]):
        findings.add(
            Kind.MOVED_OFFSET,
            f"the record at offset {offset} of {name} did not exist before",
            offset=offset,
        )
    known = survivors.filter(places.is_valid())
    were = before.table.take(places.drop_null())
    is_its = _same(known["key"], were["key"])
    for offset in _listed(known.filter(pc.invert(is_its))["offset"]):
        findings.add(
            Kind.MOVED_OFFSET,
            f"at offset {offset} of {name} there was a record of another key before",
            offset=offset,
        )
    known, were = known.filter(is_its), were.filter(is_its)
    for column in ("value", "timestampMs"):
        differs = pc.invert(_same(known[column], were[column]))
        _note_changes(known.filter(differs), column, findings, name)
    if "headers" in known.column_names and not known["headers"].equals(were["headers"]):
        pairs = zip(known["headers"].to_pylist(), were["headers"].to_pylist(), strict=True)
        differs = pa.array([one != other for one, other in pairs], pa.bool_())
        _note_changes(known.filter(differs), "headers", findings, name)


def _note_changes(rows: pa.Table, column: str, findings: Findings, name: str) -> None:
    for offset in _listed(rows["offset"]):
        findings.add(
            Kind.CHANGED_RECORD,
            f"the record at offset {offset} of {name} has another {column} than before",
            offset=offset,
        )


def _check_latest(
    before: Rows, after: Rows, may_expire: MayExpire, findings: Findings, name: str
) -> None:
    were, now = _latest(before.table), _latest(after.table)
    places = pc.index_in(were["key"], value_set=now["key"].combine_chunks())
    offsets = now["offset"].take(places)
    is_tombstone = were["value"].is_null()
    is_older = pc.fill_null(pc.less(offsets, were["offset"]), fill_value=False)
    for row in _rows(were, pc.and_(is_older, is_tombstone)):
        findings.add(
            Kind.RESURRECTED_KEY,
            f"the key that offset {row} of {name} deleted is back with an older record",
            offset=row,
        )
    is_gone = pc.and_(pc.is_null(offsets), pc.greater_equal(were["offset"], after.start))
    lost = pc.and_(pc.or_(is_gone, is_older), pc.invert(is_tombstone))
    for row in _rows(were, lost):
        findings.add(
            Kind.LOST_LATEST,
            f"the record at offset {row} of {name} was the last of its key, and it is gone",
            offset=row,
        )
    for row in _rows(were, pc.and_(is_gone, is_tombstone)):
        if not may_expire(row):
            findings.add(
                Kind.EARLY_TOMBSTONE,
                f"the tombstone at offset {row} of {name} is gone before its time",
                offset=row,
            )


def _latest(table: pa.Table) -> pa.Table:
    rows = LatestRows()
    rows.add_table(table)
    latest = rows.finish()
    return _keyed(table) if latest is None else latest


def _keyed(table: pa.Table) -> pa.Table:
    """Return the rows that have a key; the cleaner need not keep the others."""
    return table.filter(table["key"].is_valid())


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Compare two columns row by row; nulls are the same."""
    return pc.or_(
        pc.fill_null(pc.equal(one, other), fill_value=False),
        pc.and_(pc.is_null(one), pc.is_null(other)),
    )


def _rows(table: pa.Table, mask: pa.ChunkedArray) -> list[int]:
    return _listed(table.filter(mask)["offset"])


def _listed(offsets: pa.ChunkedArray) -> list[int]:
    found: list[int] = offsets.to_pylist()
    return found
