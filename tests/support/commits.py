"""Commits an offset as a group without members, over the wire."""

from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.offset_commit.v7.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from tests.support.running import Running


async def commit(broker: Running, group_id: str, offset: int) -> None:
    """Commit an offset of partition 0 of `orders`."""
    caller = await broker.call()
    await caller.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,)))
    await broker.groups.loaded.wait()
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    answer = await caller.ask(
        OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
        )
    )
    assert answer.topics[0].partitions[0].error_code == 0
