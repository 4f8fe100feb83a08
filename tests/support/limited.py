"""Brokers whose limits are low, and requests that reach them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support import group_requests
from tests.support.kio_messages import request
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

MEMBER_SETS = ("group.members.max.bytes=100000", "offsets.topic.num.partitions=1")


def create_partitions(name: str, count: int, *, validate_only: bool = False) -> Any:
    """Return a CreatePartitions."""
    topics = [{"name": name, "count": count}]
    return request(37, 3, topics=topics, timeout=5_000, validate_only=validate_only)


def init_producer(transactional_id: str | None) -> Any:
    """Return an InitProducerId."""
    return request(22, 4, transactional_id=transactional_id, transaction_timeout=60_000)


@asynccontextmanager
async def groups_at(tmp_path: Path, *sets: str) -> AsyncIterator[tuple[Running, Caller]]:
    """Run a broker whose members may have 100,000 bytes."""
    async with running(tmp_path, *MEMBER_SETS, *sets) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("a"))
        await home.groups.loaded.wait()
        yield home, caller


@asynccontextmanager
async def transactions_at(tmp_path: Path, *sets: str) -> AsyncIterator[tuple[Running, Caller]]:
    """Run a broker that has read its journal of transactions."""
    async with running(tmp_path, "transaction.state.log.num.partitions=1", *sets) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("a", 1))
        coordinators = home.broker.coordinators.get()
        await give_turns_until(
            lambda: not coordinators.transactions.journal.loading_count, "the journal is read"
        )
        yield home, caller


def add_to_txn(transactional_id: str, producer: Any, topic: str, partitions: range) -> Any:
    """Return an AddPartitionsToTxn of a client."""
    return request(
        24,
        3,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": topic, "partitions": partitions}],
    )


def end_txn(transactional_id: str, producer: Any) -> Any:
    """Return an EndTxn that aborts."""
    named = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    return request(26, 3, transactional_id=transactional_id, **named)


def alter_configs(kind: int, names: Iterable[str], **values: str) -> Any:
    """Return an IncrementalAlterConfigs that sets the same values of some resources."""
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]
    rows = [{"resource_type": kind, "resource_name": name, "configs": configs} for name in names]
    return request(44, 1, resources=rows)
