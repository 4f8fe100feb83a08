"""CreatePartitions (37). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class CreatePartitionsAssignment(NamedTuple):
    broker_ids: Annotated[Sequence[int], "[]int32"] = ()

class CreatePartitionsTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    count: Annotated[int, "int32"] = 0  # type: ignore[assignment]
    assignments: Annotated[Sequence[CreatePartitionsAssignment] | None, "[]struct null"] = ()

class CreatePartitionsRequest(NamedTuple):
    topics: Annotated[Sequence[CreatePartitionsTopic], "[]struct"] = ()
    timeout_ms: Annotated[int, "int32"] = 0
    validate_only: Annotated[bool, "bool"] = False
REQUEST = Message(37, 0, 3, 2, CreatePartitionsRequest)

class CreatePartitionsTopicResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class CreatePartitionsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[CreatePartitionsTopicResult], "[]struct"] = ()
RESPONSE = Message(37, 0, 3, 2, CreatePartitionsResponse)
