"""Transactions in the broker's services, step by step, by the same calls as in the handlers."""

from pathlib import Path

from siltstone.broker.transactions.ending import End
from siltstone.broker.transactions.producing import Rules, TransactionalProduce, admit
from siltstone.broker.transactions.transaction import Transaction
from siltstone.protocol.coordinator.group_records import NO_EXPIRY
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.journal import Producer
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.appending.validation import validate
from siltstone.storage.log.log import Log
from tests.support.batches import make_batch
from tests.support.committed import new_offsets
from tests.support.services import ServicesOnDisk

COPY = "copy"
GROUP = "readers"
TIMEOUT_MS = 60_000


def new_home(root: Path) -> ServicesOnDisk:
    """Return a broker whose internal topics are small, not yet open."""
    return ServicesOnDisk(
        root, transaction_state_log_num_partitions="2", offsets_topic_num_partitions="2"
    )


async def open_home(root: Path) -> ServicesOnDisk:
    """Open a broker whose internal topics are small; the first time with a topic ``orders``."""
    home = await new_home(root).open()
    if "orders" not in home.services.topics.topics:
        await home.services.topics.create("orders", 3, {})
        await home.services.groups().journal.ensure_created()
        await home.services.transactions().journal.ensure_created()
    return home


def log_of(home: ServicesOnDisk, partition: int, topic: str = "orders") -> Log:
    """Return a log that exists."""
    return home.services.topics.find_log(topic, partition)


async def init(home: ServicesOnDisk, transactional_id: str = COPY) -> Producer:
    """Begin an epoch, as a producer that starts."""
    begun = await home.services.transactions().initialise(transactional_id, None, TIMEOUT_MS)
    return Producer(begun.producer_id, begun.producer_epoch)


def produce(
    home: ServicesOnDisk,
    producer: Producer,
    partition: int = 0,
    *,
    sequence: int = 0,
    version: int = 12,
    transactional_id: str | None = COPY,
) -> ValidatedBatch:
    """Append a batch of one record as the Produce handler does."""
    log = log_of(home, partition)
    data = make_batch(
        flags=TRANSACTIONAL,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        timestamp=home.clock.now_ms(),
    )
    batch = validate(memoryview(data), log.config, home.clock.now_ms())
    request = ProduceRequest(
        transactional_id,
        -1,
        1000,
        [TopicProduceData("orders", partition_data=[PartitionProduceData(partition, None)])],
    )
    services = home.services
    transaction = TransactionalProduce(services.transactions(), services.topics, request, version)
    transaction.admit(log, batch)
    transaction.check_first(log, batch)
    return log.append(batch)


def commit_offset(home: ServicesOnDisk, producer: Producer, offset: int, version: int = 5) -> None:
    """Write an offset of `GROUP` within the transaction as TxnOffsetCommit does."""
    groups = home.services.groups()
    partition = groups.journal.partition_for(GROUP)
    admit(
        home.services.transactions(),
        COPY,
        producer,
        log_of(home, partition, OFFSETS_TOPIC),
        lambda: [(OFFSETS_TOPIC, partition)],
        Rules(adds=version >= 5, knows_abortable=version >= 4),
    )
    committed = OffsetCommitValue(offset, -1, "", home.clock.now_ms(), NO_EXPIRY)
    offsets = new_offsets(("orders", 0, committed))
    groups.check_commit(GROUP, -1, "", None, None, offsets)
    groups.offsets.append_transactional(GROUP, partition, offsets, producer)


def end(
    home: ServicesOnDisk, producer: Producer, *, commit: bool = True, version: int = 2
) -> Transaction:
    """End the transaction of `COPY`."""
    ended = home.services.transactions().end_at_once(
        COPY, End(producer.id, producer.epoch, commit, version)
    )
    assert ended is not None
    return ended


def following(ended: Transaction) -> Producer:
    """Return the producer for the next transaction after an end."""
    return Producer(ended.producer_id, ended.producer_epoch)


def read_committed(log: Log) -> list[int]:
    """Return the offsets of the data batches that a reader of committed records delivers."""
    delivered: list[int] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        read = log.read(offset, 1 << 20, log.last_stable_offset)
        if read is None:
            break
        aborted = sorted(
            log.aborted_transactions(offset, read.next_offset), key=lambda each: each[1]
        )
        data = read.segment.read(read.slice.position, read.slice.size)
        skipped: set[int] = set()
        position = 0
        while position < len(data):
            header = BatchHeader.read(data, position)
            position += header.size
            while aborted and aborted[0][1] <= header.last_offset:
                skipped.add(aborted.pop(0)[0])
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                delivered.append(header.base_offset)
        offset = read.next_offset
    return delivered
