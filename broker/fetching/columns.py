"""The columns of Fetch's messages that are looked at by number, for kernels that run uncompiled.

For compiled ones they stand in ``_fetch_kernels.pxd``.
"""

from typing import Final

# Of FetchRequest.
REPLICA_ID: Final = 1
REPLICA_STATE: Final = 2
MIN_BYTES: Final = 4
MAX_BYTES: Final = 5
ISOLATION_LEVEL: Final = 6

# Of FetchPartition.
PARTITION: Final = 0
LEADER_EPOCH: Final = 1
FETCH_OFFSET: Final = 2
LAST_EPOCH: Final = 3
PARTITION_MAX_BYTES: Final = 5

# Of PartitionData.
ERROR_CODE: Final = 1
HIGH_WATERMARK: Final = 2
STABLE_OFFSET: Final = 3
START_OFFSET: Final = 4
DIVERGENCE: Final = 5
RECORDS: Final = 10
