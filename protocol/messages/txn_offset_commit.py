"""TxnOffsetCommit (28). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class TxnOffsetCommitRequestPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    committed_offset: Annotated[int, "int64"] = 0
    committed_leader_epoch: Annotated[int, "int32 2+"] = -1
    committed_metadata: Annotated[str | None, "string null"] = ""

class TxnOffsetCommitRequestTopic(NamedTuple):
    name: Annotated[str, "string 0-5"] = ""
    topic_id: Annotated[bytes, "uuid 6+"] = NO_ID
    partitions: Annotated[Sequence[TxnOffsetCommitRequestPartition], "[]struct"] = ()

class TxnOffsetCommitRequest(NamedTuple):
    transactional_id: Annotated[str, "string"] = ""
    group_id: Annotated[str, "string"] = ""
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int16"] = 0
    generation_id_or_member_epoch: Annotated[int, "int32 3+"] = -1
    member_id: Annotated[str, "string 3+"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = None
    topics: Annotated[Sequence[TxnOffsetCommitRequestTopic], "[]struct"] = ()
REQUEST = Message(28, 0, 6, 3, TxnOffsetCommitRequest)

class TxnOffsetCommitResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0

class TxnOffsetCommitResponseTopic(NamedTuple):
    name: Annotated[str, "string 0-5"] = ""
    topic_id: Annotated[bytes, "uuid 6+"] = NO_ID
    partitions: Annotated[Sequence[TxnOffsetCommitResponsePartition], "[]struct"] = ()

class TxnOffsetCommitResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[TxnOffsetCommitResponseTopic], "[]struct"] = ()
RESPONSE = Message(28, 0, 6, 3, TxnOffsetCommitResponse)
