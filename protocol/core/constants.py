"""The numbers of the core: one list for Python, from which the build writes the list for C.

`hatch_build.write_constants` makes an enum of every whole number here. `protocol.records.batch`
explains the numbers of a batch header.
"""

from typing import Final

# A batch header: its sizes, and the positions of its fields.
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes up to the end of the length, which it does not count."""
MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC: Final = 2
LENGTH_POSITION: Final = 8
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
LAST_OFFSET_DELTA_POSITION: Final = 23
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_ID_POSITION: Final = 43
PRODUCER_EPOCH_POSITION: Final = 51
BASE_SEQUENCE_POSITION: Final = 53
COUNT_POSITION: Final = 57

# The bits of its attributes.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
ATTRIBUTE_BITS: Final = 0xFF
"""The byte in which they all are."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

SIZE_PREFIX: Final = 4
"""Bytes of a frame that say how many follow."""
MIN_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, a null key, a null value and no headers."""
UNLOCKED_BYTES: Final = 256 << 10
"""From this size on a batch is judged without the GIL."""
KEPT_BATCHES: Final = 5
"""How many of its last batches a producer's state has, as in Kafka."""

# How a walk over records or batches ended: FINE and above, or a fault.
FINE: Final = 0
WRONG_CRC: Final = -1
BAD_LENGTH: Final = -2
BAD_NUMBER: Final = -3
BAD_FIELD: Final = -4
BAD_HEADERS: Final = -5
BAD_BODY: Final = -6
RECORDS_MISSING: Final = -7
BYTES_LEFT: Final = -8
BAD_TIMESTAMP: Final = -9
NO_RECORDS: Final = -10
SHORT_LENGTH: Final = -11
WRONG_MAGIC: Final = -12
OFFSET_OVERFLOW: Final = -13
OFFSET_BACKWARDS: Final = -14
BAD_COUNT: Final = -15
BAD_RECORD: Final = -16
TOO_LARGE: Final = -17

FAULTS: Final = {
    WRONG_CRC: "its checksum is wrong",
    BAD_LENGTH: "a length does not fit the bytes that exist",
    BAD_NUMBER: "a number is too long or cut short",
    BAD_FIELD: "a key or value does not fit into its record",
    BAD_HEADERS: "the headers do not fit into their record",
    BAD_BODY: "bytes are left inside a record",
    RECORDS_MISSING: "records are missing",
    BYTES_LEFT: "bytes are left after the last record",
    BAD_TIMESTAMP: "a timestamp does not fit 64 bits",
    NO_RECORDS: "the number of records is not positive",
    SHORT_LENGTH: "its length is shorter than a batch header",
    WRONG_MAGIC: "its magic byte is not 2",
    OFFSET_OVERFLOW: "its offsets do not belong into this segment",
    OFFSET_BACKWARDS: "its offsets do not follow those before it",
    BAD_COUNT: "it cannot have as many records as it says",
    BAD_RECORD: "a record in it does not parse",
    TOO_LARGE: "what stays of it may be more than one batch can hold",
}

# Bits of the verdict about a well-formed batch about which a rule must decide.
NULL_KEY: Final = 1
TIMESTAMP_OUTSIDE: Final = 2
UNEVEN_OFFSETS: Final = 4
NEEDS_REWRITE: Final = 8
"""Record attributes are not 0, or the first record is not at the base timestamp."""

# Why a walk over batches ended before the batch at its position, if nothing is wrong.
WANTS_MORE: Final = 0
"""It is not whole yet."""
FULL: Final = 1
"""Its results have no room: go on from it."""
IS_CLOSED: Final = 2
"""It is compressed and has to be opened first."""

SLOT_BYTES: Final = 24
"""Of a cleaner's offset map: the digest of a key and its last offset."""
# Why a pass of the cleaner drops records, in the order of `RecordFilter.dropped`.
BY_SUPERSEDED: Final = 0
BY_TOMBSTONE: Final = 1
BY_MARKER: Final = 2
BY_ABORTED: Final = 3
BY_NULL_KEY: Final = 4
REASONS: Final = 5
RECORD_GROWTH: Final = 11
"""The bytes by which another base timestamp can make a record larger."""

# Why the reading of a journal ended.
AT_END: Final = 0
COMPRESSED: Final = 1
DAMAGED: Final = 2
NO_BATCH: Final = 3
UNREADABLE: Final = 4

# The kinds of a journal's entries; `journal.EntryKind` says more.
PLAIN_ENTRY: Final = 0
TRANSACTIONAL_ENTRY: Final = 1
ABORT_ENTRY: Final = 2
COMMIT_ENTRY: Final = 3
