"""What goes into an append, and what comes out of it."""

from enum import Enum
from typing import Final, NamedTuple


class Origin(Enum):
    """Who appends: it decides which rules a batch has to meet."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Markers and committed offsets: epochs count, sequences do not."""
    REPLICATION = "replication"
    """What is in the log already: every rule was checked when it was written."""


class ValidatedBatch(NamedTuple):
    """Exactly one batch that may be stamped and written; no append time (-1) with CreateTime."""

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


BUFFER: Final = 0
SIZE: Final = 1
LAST_OFFSET_DELTA: Final = 2
COUNT: Final = 3
ATTRIBUTES: Final = 4
MAX_TIMESTAMP: Final = 5
PRODUCER_ID: Final = 6
PRODUCER_EPOCH: Final = 7
BASE_SEQUENCE: Final = 8
LOG_APPEND_TIME_MS: Final = 9
"""The columns of a `ValidatedBatch`, as kernels read them."""


class AppendResult(NamedTuple):
    """Where a batch went; a duplicate: where it went the first time.

    ``flush_due`` asks the caller to await `Log.flush` on an io thread before it answers.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    flush_due: bool
