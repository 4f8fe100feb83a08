"""Brokers whose limits are low, and requests that reach them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support import group_requests
from tests.support.kio_schemas import request_class
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

MEMBER_SETS = ("group.members.max.bytes=100000", "offsets.topic.num.partitions=1")


def create_partitions(name: str, count: int, *, validate_only: bool = False) -> Any:
    """Return a CreatePartitions."""
    topic = request_class(37, 3, "CreatePartitionsTopic")(name=name, count=count, assignments=None)
    return request_class(37, 3)(
        topics=(topic,), timeout=timedelta(seconds=5), validate_only=validate_only
    )


def init_producer(transactional_id: str | None) -> Any:
    """Return an InitProducerId."""
    return request_class(22, 4)(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=60),
        producer_id=-1,
        producer_epoch=-1,
    )


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
    """Run a broker that has read what there is of transactions."""
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
    wanted = request_class(24, 3, "AddPartitionsToTxnTopic")
    return request_class(24, 3)(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(wanted(name=topic, partitions=tuple(partitions)),),
    )


def end_txn(transactional_id: str, producer: Any) -> Any:
    """Return an EndTxn that aborts."""
    return request_class(26, 3)(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
    )


def alter_configs(kind: int, names: Iterable[str], **values: str) -> Any:
    """Return an IncrementalAlterConfigs that sets the same values of some resources."""
    config = request_class(44, 1, "AlterableConfig")
    resource = request_class(44, 1, "AlterConfigsResource")
    configs = tuple(
        config(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    )
    return request_class(44, 1)(
        resources=tuple(
            resource(resource_type=kind, resource_name=name, configs=configs) for name in names
        ),
        validate_only=False,
    )
