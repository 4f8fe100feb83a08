"""Numbers in which `column_kernels` and those who call it speak; `_native_columns.pxd` has them."""

from typing import Final

# Why a survey ended: before the batch at POSITION. Negative: that batch is bad.
WANTS_MORE: Final = 0
"""No whole batch is left; the next one needs NEEDED bytes."""
FULL: Final = 1
"""There is no room for another row."""
SHORT_LENGTH: Final = -1
WRONG_MAGIC: Final = -2
WRONG_CRC: Final = -3
OFFSET_BACKWARDS: Final = -4
BAD_COUNT: Final = -5
BAD_RECORD: Final = -6

FAULTS: Final = {
    SHORT_LENGTH: "its length is shorter than a batch header",
    WRONG_MAGIC: "its magic byte is not 2",
    WRONG_CRC: "its checksum is wrong",
    OFFSET_BACKWARDS: "its offsets do not follow those before it",
    BAD_COUNT: "it can not have as many records as it says",
    BAD_RECORD: "a record in it does not parse",
}

# A survey's state: STATUS, POSITION and the rest are answers; LAST_OFFSET goes from call to call.
STATUS: Final = 0
POSITION: Final = 1
NEEDED: Final = 2
BATCHES: Final = 3
"""Rows that were filled."""
RECORDS: Final = 4
"""The sum of their counts; control batches count nothing."""
FLAGS: Final = 5
"""The attributes of all batches or-ed, control batches left out."""
LAST_OFFSET: Final = 6
"""The last offset of the batch before."""
SURVEY_SLOTS: Final = 7

# A row: one batch of data. Positions count from the start of the buffer.
ROW_POSITION: Final = 0
ROW_SIZE: Final = 1
ROW_ORIGIN: Final = 2
"""The position in the file: what the column `position` says."""
ROW_BASE_OFFSET: Final = 3
ROW_LAST_OFFSET: Final = 4
ROW_COUNT: Final = 5
ROW_ATTRIBUTES: Final = 6
ROW_MAX_TIMESTAMP: Final = 7
ROW_PRODUCER_ID: Final = 8
ROW_NUMBERS: Final = 9

# The state of filling. In:
START: Final = 0
"""Offsets from here on, inclusive."""
END: Final = 1
"""Offsets to here, exclusive."""
TIME_FROM: Final = 2
TIME_LAST: Final = 3
"""Timestamps between these, both inclusive, in ms."""
TIME_SCALE: Final = 4
"""What timestamps are multiplied by: 1000 for microseconds."""
IS_WALKED: Final = 5
"""0: neither a column nor a filter asks for more than offsets and counts."""
# Out:
ROWS: Final = 6
KEY_NULLS: Final = 7
KEY_BYTES: Final = 8
VALUE_NULLS: Final = 9
VALUE_BYTES: Final = 10
HEADERS: Final = 11
NAME_BYTES: Final = 12
HEADER_NULLS: Final = 13
HEADER_BYTES: Final = 14
BAD_ROW: Final = 15
"""The row of the batch that does not parse, -1 if all do."""
FILL_SLOTS: Final = 16

# Where in the arena each Arrow buffer begins; -1: the column is not wanted.
OFFSET: Final = 0
TIMESTAMP: Final = 1
TIMESTAMP_TYPE: Final = 2
KEY_VALID: Final = 3
KEY_ENDS: Final = 4
KEY: Final = 5
VALUE_VALID: Final = 6
VALUE_ENDS: Final = 7
VALUE: Final = 8
HEADER_ENDS: Final = 9
"""Of the lists: how many headers there are up to each record."""
NAME_ENDS: Final = 10
NAME: Final = 11
HEADER_VALID: Final = 12
HEADER_VALUE_ENDS: Final = 13
HEADER_VALUE: Final = 14
BATCH_POSITION: Final = 15
BATCH_OFFSET: Final = 16
PRODUCER_ID: Final = 17
TOMBSTONE: Final = 18
BUFFERS: Final = 19
