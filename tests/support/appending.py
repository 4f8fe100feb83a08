"""Appends records to a log without a client."""

from typing import Any

from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.appending.validation import validate
from siltstone.storage.log.log import Log
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.logs import validated


def append(
    log: Log, rows: list[Row] | int = 1, *, timestamp: int = TIMESTAMP, **fields: int
) -> ValidatedBatch:
    """Append one batch as Produce does."""
    batch = make_batch(rows, timestamp=timestamp, **fields)
    return log.append(validate(memoryview(batch), log.config, TIMESTAMP))


def append_unchecked(log: Log, rows: list[Row] | int = 1, **fields: Any) -> int:
    """Append one batch, whatever the topic's settings say to it, and return its base offset."""
    return log.append(validated(make_batch(rows, **fields))).base_offset
