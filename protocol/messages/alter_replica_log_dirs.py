"""AlterReplicaLogDirs (34). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class AlterReplicaLogDirTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class AlterReplicaLogDir(NamedTuple):
    path: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[AlterReplicaLogDirTopic], "[]struct"] = ()

class AlterReplicaLogDirsRequest(NamedTuple):
    dirs: Annotated[Sequence[AlterReplicaLogDir], "[]struct"] = ()
REQUEST = Message(34, 1, 2, 2, AlterReplicaLogDirsRequest)

class AlterReplicaLogDirPartitionResult(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0

class AlterReplicaLogDirTopicResult(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[AlterReplicaLogDirPartitionResult], "[]struct"] = ()

class AlterReplicaLogDirsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[AlterReplicaLogDirTopicResult], "[]struct"] = ()
RESPONSE = Message(34, 1, 2, 2, AlterReplicaLogDirsResponse)
