"""The columns of messages that a commit looks at by number: one list for Python, and so for C.

A column is the place of a field in its class (`protocol.messages`). The build writes the list for
the compiled module.
"""

from typing import Final

# Of OffsetCommitRequestPartition, and of TxnOffsetCommitRequestPartition.
PARTITION: Final = 0
OFFSET: Final = 1
LEADER_EPOCH: Final = 2
METADATA: Final = 3
WANTED_COLUMNS: Final = 4

# Of OffsetCommitResponsePartition.
ANSWERED_PARTITION: Final = 0
ERROR_CODE: Final = 1
ANSWERED_COLUMNS: Final = 2

# Of a partition of OffsetFetchResponse: first it says which, then what OffsetCommitValue begins
# with, and last an error code.
FETCHED_PARTITION: Final = 0
FETCHED_VALUE: Final = 1
FETCHED_COLUMNS: Final = 5
