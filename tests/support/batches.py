"""Builds batches in one call."""

from typing_extensions import Unpack

from siltstone.protocol.records.build import BatchFields, build_batch
from siltstone.protocol.records.record import Record

TIMESTAMP = 1_700_000_000_000
"""The time of the first record unless a test says otherwise."""

Row = tuple[bytes | None, bytes | None]


def make_rows(count: int, size: int = 10) -> list[Row]:
    """Return `count` rows k0, k1, … with values of `size` bytes."""
    return [(b"k%d" % index, b"v" * size) for index in range(count)]


def make_batch(
    rows: list[Row] | int = 1,
    *,
    base_offset: int = 0,
    timestamp: int = TIMESTAMP,
    step_ms: int = 1,
    codec: int = 0,
    **fields: "Unpack[BatchFields]",
) -> bytearray:
    """Return a batch of (key, value) rows, or of that many made-up ones, `step_ms` apart."""
    pairs = make_rows(rows) if isinstance(rows, int) else rows
    records = [
        Record(base_offset + index, timestamp + index * step_ms, key, value)
        for index, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, base_offset=base_offset, codec=codec, **fields)


def make_producer_batch(
    sequence: int, rows: list[Row] | int = 1, *, producer_id: int = 4000, producer_epoch: int = 0
) -> bytearray:
    """Return a batch of an idempotent producer, as it comes from the wire."""
    return make_batch(
        rows, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
    )
