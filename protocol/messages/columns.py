"""The columns of messages that kernels read by number: one list for Python and for C.

A column is the index of a field in its class in `protocol.messages`. The build writes the same list
for compiled modules.
"""

from typing import Final

# Columns of TopicProduceData.
TOPIC_NAME: Final = 0
TOPIC_ID: Final = 1
TOPIC_PARTITIONS: Final = 2

# Columns of PartitionProduceData, whose first column is PARTITION.
PRODUCED_RECORDS: Final = 1

# Columns of FetchPartition.
PARTITION: Final = 0
LEADER_EPOCH: Final = 1
FETCH_OFFSET: Final = 2
LAST_EPOCH: Final = 3
PARTITION_MAX_BYTES: Final = 5
WANTED_COLUMNS: Final = 6
"""The number of columns above: tagged fields have later columns."""

# Columns of PartitionData; the first ones of PartitionProduceResponse are the same.
ERROR_CODE: Final = 1
HIGH_WATERMARK: Final = 2
STABLE_OFFSET: Final = 3
START_OFFSET: Final = 4
DIVERGENCE: Final = 5
LEADER: Final = 6
SNAPSHOT: Final = 7
ABORTED: Final = 8
PREFERRED_REPLICA: Final = 9
RECORDS: Final = 10
FETCHED_COLUMNS: Final = 11

# Columns of ListOffsetsPartition and OffsetForLeaderPartition, after PARTITION and LEADER_EPOCH.
QUESTION: Final = 2
ASKED_COLUMNS: Final = 3

# Columns of ListOffsetsPartitionResponse, after PARTITION and ERROR_CODE.
END_TIMESTAMP: Final = 2
END_OFFSET: Final = 3
END_EPOCH: Final = 4
END_COLUMNS: Final = 5

# Columns of EpochEndOffset in OffsetForLeaderEpoch.
EPOCH_PARTITION: Final = 1
EPOCH: Final = 2
EPOCH_END: Final = 3
EPOCH_COLUMNS: Final = 4

# Columns of OffsetCommitRequestPartition and TxnOffsetCommitRequestPartition, after PARTITION.
COMMITTED_OFFSET: Final = 1
COMMITTED_EPOCH: Final = 2
COMMITTED_METADATA: Final = 3
COMMITTED_COLUMNS: Final = 4

# OffsetCommitResponsePartition has only PARTITION and ERROR_CODE.
COMMIT_CODES_COLUMNS: Final = 2

# Columns of a partition of OffsetFetchResponse: PARTITION, then the first fields of
# OffsetCommitValue, and last an error code.
STORED_VALUE: Final = 1
STORED_COLUMNS: Final = 5
