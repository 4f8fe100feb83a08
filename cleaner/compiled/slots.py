"""The numbers that the cleaner and its kernels share; the build writes them for C.

The kernels keep everything that outlives a call in one array of int64, the *state*; its slots are
numbered here.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from array import array

State: TypeAlias = "array[int]"

# Why a kernel returned: at POSITION, which counts from the start of the buffer. A number below DONE
# is the fault of the batch there (`protocol.core.constants`).
DONE: Final = 0
"""No whole batch is left; the next one takes NEEDED bytes."""
OPEN: Final = 1
"""The batch is compressed and has to be opened."""
FULL: Final = 2
"""The map is full; LATEST is what it covers."""
WANTS_PRODUCERS: Final = 3
"""The table of transactions needs more room."""
PLANS_FULL: Final = 4
"""There is no room to plan more batches."""
OUTPUT_FULL: Final = 5
"""The output has no room for the next batch, which may take NEEDED bytes."""
WANTS_SEGMENT: Final = 6
"""The batch does not fit into the segment: its offset or its position has more than 31 bits."""
# What becomes of a record.
KEEP: Final = 0
KEEP_TOMBSTONE: Final = 1
SUPERSEDED: Final = 2
EXPIRED: Final = 3
NULL_KEY: Final = 4

# What becomes of a batch, as planned. The low three bits are the mode.
DROP: Final = 0
"""Nothing of it stays; its records need not be read."""
WHOLE: Final = 1
"""It stays as it is."""
STAMP: Final = 2
"""All of it stays, with a delete horizon."""
SOME: Final = 3
"""The fates of its records decide."""
MODE: Final = 7
RETAIN_EMPTY: Final = 8
"""If no record stays, its header does (the last batch of a producer, or of the pass)."""

# What became of a batch that was opened.
NOTHING: Final = 0
UNCHANGED: Final = 1
EMPTIED: Final = 2
REBUILT: Final = 3

# Reasons, in the order of the pairs of records and bytes from DROPPED on.
BY_SUPERSEDED: Final = 0
BY_TOMBSTONE: Final = 1
BY_MARKER: Final = 2
BY_ABORTED: Final = 3
BY_NULL_KEY: Final = 4
REASONS: Final = 5

# The state.
STATUS: Final = 0
POSITION: Final = 1
NEEDED: Final = 2
OPENED: Final = 3
"""1: the buffer is one batch that was opened; its CRC is not checked."""
LAST_OFFSET: Final = 4
"""The last offset of the batch before: offsets must rise."""
FIRST_DIRTY: Final = 5
LATEST: Final = 6
"""The last offset that the map covers (Kafka: ``latestOffset``)."""
MAP_KEYS: Final = 7
MAP_LIMIT: Final = 8
SEED: Final = 9
"""Two slots: the secret that keys are hashed with."""
NOW: Final = 11
RETENTION: Final = 12
"""``delete.retention.ms``."""
UPPER: Final = 13
"""The first uncleanable offset."""
ABORTED_COUNT: Final = 14
ABORTED_NEXT: Final = 15
PRODUCERS_USED: Final = 16
PLANS: Final = 17
PLAN: Final = 18
"""The next plan to carry out."""
OUTPUT: Final = 19
"""Bytes in the output."""
OUTCOME: Final = 20
DIGEST: Final = 21
"""Two slots: the sum of the digests of the keys that stay."""
MAP_RECORDS: Final = 23
MAP_BATCHES: Final = 24
RECORDS_READ: Final = 25
BATCHES_READ: Final = 26
RECORDS_WRITTEN: Final = 27
BATCHES_WRITTEN: Final = 28
BATCHES_REBUILT: Final = 29
BATCHES_EMPTIED: Final = 30
HORIZONS_SET: Final = 31
HORIZONS_REACHED: Final = 32
DROPPED: Final = 33
NEXT_HORIZON: Final = DROPPED + 2 * REASONS
"""The smallest delete horizon in what was written."""
STATE_SLOTS: Final = NEXT_HORIZON + 1

# The state of an output segment's indexes.
SEGMENT_SIZE: Final = 3
SINCE_INDEX: Final = 4
INTERVAL: Final = 5
BASE_OFFSET: Final = 6
END_OFFSET: Final = 7
FIRST_TIMESTAMP: Final = 8
MAX_TIMESTAMP: Final = 9
MAX_TIMESTAMP_OFFSET: Final = 10
LAST_TIME: Final = 11
"""The timestamp of the last entry in the time index."""
OFFSET_BYTES: Final = 12
TIME_BYTES: Final = 13
INDEX_SLOTS: Final = 14

# Rows of the arrays.
SLOT_NUMBERS: Final = 3
"""Of the map: the two halves of a key's digest, its offset + 1; 0 is an empty slot."""
ROW_NUMBERS: Final = 8
"""Of the window: digest, offset, then as the kernel needs."""
WINDOW: Final = 32
"""How many records' slots are prefetched at a time."""
PLAN_NUMBERS: Final = 4
"""Position, size, mode, where its fates begin."""
ABORTED_NUMBERS: Final = 4
"""Producer id, first offset, offset of the marker, 1 if the marker stays with its data."""
TRANSACTION_NUMBERS: Final = 4
"""Producer id + 1, committed data was seen, number of the open aborted one + 1, its data was."""
PRODUCER_NUMBERS: Final = 3
"""Producer id, last data offset or -1, epoch; ascending."""

GROWTH: Final = 11
"""The bytes by which another base timestamp can make a record larger."""
