"""The input of an append, and its result."""

from enum import Enum
from typing import NamedTuple


class Origin(Enum):
    """Who appends: this decides which rules a batch has to obey."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Markers and committed offsets: epochs count, sequences do not."""
    REPLICATION = "replication"
    """Batches that are in the log already: every rule was checked when they were written."""


class NotWrittenError(Exception):
    """Batches that had waited to be written could not be; their requests have no answer."""


class ValidatedBatch(NamedTuple):
    """Exactly one batch that may be stamped and written; the append time is -1 with CreateTime."""

    buffer: memoryview
    size: int
    last_offset_delta: int
    count: int  # type: ignore[assignment]  # Kafka's word; nobody counts a batch's fields
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    log_append_time_ms: int


class AppendResult(NamedTuple):
    """Where a batch was written; of a duplicate, where it was written the first time.

    ``flush_due`` asks the caller to await `Log.flush` on an io thread before it answers.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    flush_due: bool
