"""What the kernels answer, in numbers and words; `_format.pxd` repeats the numbers for C."""

from typing import Final

# Of a batch. Negative: not well-formed, the walk stopped. Flags: well-formed, a rule must decide.
FINE: Final = 0
BAD_CRC: Final = -1
BAD_LENGTH: Final = -2
BAD_NUMBER: Final = -3
BAD_FIELD: Final = -4
BAD_HEADERS: Final = -5
BAD_BODY: Final = -6
RECORDS_MISSING: Final = -7
BYTES_LEFT: Final = -8
BAD_TIMESTAMP: Final = -9
BAD_COUNT: Final = -10

NULL_KEY: Final = 1
TIMESTAMP_OUTSIDE: Final = 2
UNEVEN_OFFSETS: Final = 4
NEEDS_REWRITE: Final = 8
"""Record attributes are not 0, or the first record is not at the base timestamp."""

BATCH_FAULTS: Final = {
    BAD_CRC: "the checksum does not match the bytes",
    BAD_LENGTH: "a length does not fit what is there",
    BAD_NUMBER: "a number is too long or cut short",
    BAD_FIELD: "a key or value does not fit into its record",
    BAD_HEADERS: "the headers do not fit into their record",
    BAD_BODY: "bytes are left inside a record",
    RECORDS_MISSING: "records are missing",
    BYTES_LEFT: "bytes are left after the last record",
    BAD_TIMESTAMP: "a timestamp does not fit 64 bits",
    BAD_COUNT: "the number of records is not positive",
}

# Of a scan. Negative: the batch at the position is bad; nothing from there on counts.
WANTS_MORE: Final = 0
FULL: Final = 1
SHORT_LENGTH: Final = -1
WRONG_MAGIC: Final = -2
WRONG_CRC: Final = -3
OFFSET_OVERFLOW: Final = -4
OFFSET_BACKWARDS: Final = -5

SCAN_FAULTS: Final = {
    SHORT_LENGTH: "its length is shorter than a batch header",
    WRONG_MAGIC: "its magic is not 2",
    WRONG_CRC: "its checksum does not match",
    OFFSET_OVERFLOW: "its offsets do not belong into this segment",
    OFFSET_BACKWARDS: "its last offset is not above the one before",
}

# Slots of the scan's state, an array of int64 that goes from call to call. In: POSITION to
# LEADER_EPOCH, those of a fresh segment being 0, its base, index.interval.bytes, 0, base - 1, -1,
# base, -1. Out besides: STATUS, NEEDED (bytes that the next batch takes), ENTRIES and NOTABLE (how
# many were filled). TABLE is scratch.
POSITION: Final = 0
BASE_OFFSET: Final = 1
INTERVAL: Final = 2
INDEXED: Final = 3
LAST_OFFSET: Final = 4
MAX_TIMESTAMP: Final = 5
MAX_TIMESTAMP_OFFSET: Final = 6
LEADER_EPOCH: Final = 7
BATCHES: Final = 8
FIRST_TIMESTAMP: Final = 9
STATUS: Final = 10
NEEDED: Final = 11
ENTRIES: Final = 12
NOTABLE: Final = 13
TABLE: Final = 14
TABLE_PRODUCERS: Final = 256
SLOTS: Final = TABLE + 2 * TABLE_PRODUCERS

ENTRY_NUMBERS: Final = 4
"""Numbers of one index entry: last offset, position, max timestamp so far, its offset."""
