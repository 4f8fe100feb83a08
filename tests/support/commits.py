"""Commits an offset as a group without members, over the wire."""

from tests.support import group_requests
from tests.support.running import Running


async def commit(broker: Running, group_id: str, offset: int) -> None:
    """Commit an offset of partition 0 of `orders`."""
    caller = await broker.call()
    await caller.ask(group_requests.find(group_id))
    await broker.groups.loaded.wait()
    request = group_requests.commit(group_id, {("orders", 0): offset}, version=7, metadata=None)
    answer = await caller.ask(request)
    assert answer.topics[0].partitions[0].error_code == 0
