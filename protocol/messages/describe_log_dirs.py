"""DescribeLogDirs (35). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribableLogDirTopic(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class DescribeLogDirsRequest(NamedTuple):
    topics: Annotated[Sequence[DescribableLogDirTopic] | None, "[]struct null"] = ()
REQUEST = Message(35, 1, 5, 2, DescribeLogDirsRequest)

class DescribeLogDirsPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    partition_size: Annotated[int, "int64"] = 0
    offset_lag: Annotated[int, "int64"] = 0
    is_future_key: Annotated[bool, "bool"] = False

class DescribeLogDirsTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[DescribeLogDirsPartition], "[]struct"] = ()

class DescribeLogDirsResult(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    log_dir: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[DescribeLogDirsTopic], "[]struct"] = ()
    total_bytes: Annotated[int, "int64 4+"] = -1
    usable_bytes: Annotated[int, "int64 4+"] = -1
    is_cordoned: Annotated[bool, "bool 5+"] = False

class DescribeLogDirsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16 3+"] = 0
    results: Annotated[Sequence[DescribeLogDirsResult], "[]struct"] = ()
RESPONSE = Message(35, 1, 5, 2, DescribeLogDirsResponse)
