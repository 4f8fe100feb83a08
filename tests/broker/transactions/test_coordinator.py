"""The coordinator on real logs: what is written, what readers of committed records see."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from siltstone.broker.topics.features import Update
from siltstone.broker.transactions.ending import End
from siltstone.broker.transactions.initialising import Expected
from siltstone.broker.transactions.markers import Outcome
from siltstone.broker.transactions.transaction import MAX_EPOCH, TransactionState
from siltstone.protocol.coordinator.transaction_records import decode_key, decode_value
from siltstone.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from siltstone.protocol.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.protocol.records.journal import Producer
from siltstone.protocol.records.record import iterate_records
from siltstone.storage.log.log import Log
from tests.support.services import ServicesOnDisk
from tests.support.transactional import (
    COPY,
    GROUP,
    TIMEOUT_MS,
    commit_offset,
    end,
    following,
    init,
    log_of,
    open_home,
    produce,
    read_committed,
)
from tests.support.waiting import equals, give_turns_until

S = TransactionState
DAY_MS = 86_400_000


def journal(home: ServicesOnDisk) -> list[tuple[str | None, TransactionState | None]]:
    """Return ids and states in the journal, in order."""
    found = []
    for partition in range(2):
        log = log_of(home, partition, TRANSACTIONS_TOPIC)
        offset = 0
        while (read := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
            data = memoryview(read.segment.read(read.slice.position, read.slice.size))
            while data:
                size = int.from_bytes(data[8:12]) + 12
                for record in iterate_records(data[:size]):
                    state = record.value and TransactionState(decode_value(record.value).status)
                    found.append((decode_key(record.key or b""), state or None))
                data = data[size:]
            offset = read.next_offset
    return found


def state_of(home: ServicesOnDisk, transactional_id: str = COPY) -> TransactionState:
    """Return where an id stands."""
    return home.services.transactions().describe(transactional_id).state


async def test_a_commit_shows_everything_at_once(home: ServicesOnDisk) -> None:
    """Before it readers see nothing; the answer comes when every partition has its marker."""
    producer = await init(home)
    for partition in range(3):
        produce(home, producer, partition)

    before = [read_committed(log_of(home, partition)) for partition in range(3)]
    end(home, producer)
    after = [read_committed(log_of(home, partition)) for partition in range(3)]

    assert before == [[], [], []]
    assert after == [[0], [0], [0]]
    assert [log_of(home, partition).last_stable_offset for partition in range(3)] == [2, 2, 2]
    assert state_of(home) is S.COMPLETE_COMMIT
    assert [state for _, state in journal(home)][-2:] == [S.PREPARE_COMMIT, S.COMPLETE_COMMIT]


async def test_an_abort_shows_nothing(home: ServicesOnDisk) -> None:
    """Records that come after it are seen."""
    producer = await init(home)
    produce(home, producer)
    after = following(end(home, producer, commit=False))
    produce(home, after)
    end(home, after)

    assert read_committed(log_of(home, 0)) == [2]


async def test_each_end_begins_the_next_epoch(home: ServicesOnDisk) -> None:
    """A marker of transaction.version 2 has the epoch after the data, and so fences it."""
    producer = await init(home)
    produce(home, producer)
    after = following(end(home, producer))

    assert after == Producer(producer.id, producer.epoch + 1)
    assert log_of(home, 0).producers.producers[producer.id].epoch == after.epoch
    with pytest.raises(InvalidProducerEpoch):
        produce(home, producer, sequence=1)  # late, of the transaction before


async def test_an_old_client_keeps_its_epoch(home: ServicesOnDisk) -> None:
    """AddPartitionsToTxn first, and sequences that go on over transactions."""
    producer = await init(home)
    for sequence in range(3):
        home.services.transactions().add_partitions(
            COPY, *producer, [("orders", 0)], client_version=0
        )
        produce(home, producer, sequence=sequence, version=10)
        assert following(end(home, producer, version=0)) == producer

    assert read_committed(log_of(home, 0)) == [0, 2, 4]


@pytest.mark.parametrize(
    ("version", "error"), [(9, InvalidTxnState), (10, InvalidTxnState), (11, TransactionAbortable)]
)
async def test_a_late_batch_of_an_old_client_opens_nothing(
    home: ServicesOnDisk, version: int, error: type[KafkaError]
) -> None:
    """Without AddPartitionsToTxn a batch would open a transaction that nobody ends (KIP-890)."""
    producer = await init(home)

    with pytest.raises(error):
        produce(home, producer, version=version)

    assert log_of(home, 0).log_end_offset == 0


async def test_verification_can_be_turned_off(home: ServicesOnDisk) -> None:
    """As in Kafka, for clients that are known to be well-behaved."""
    producer = await init(home)
    await home.services.settings.alter(
        broker={"transaction.partition.verification.enable": "false"}
    )

    produce(home, producer, version=10)

    assert log_of(home, 0).log_end_offset == 1


async def test_a_batch_without_its_transactional_id(home: ServicesOnDisk) -> None:
    """Nobody can tell whose transaction it is."""
    producer = await init(home)
    with pytest.raises(TransactionalIdAuthorizationFailed):
        produce(home, producer, transactional_id=None)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "transactional_id", "error"),
    [
        (1_000_000, 0, 0, InvalidProducerIdMapping),
        (0, 0, "unknown", InvalidProducerIdMapping),
        (0, 7, 0, InvalidProducerEpoch),
    ],
)
async def test_who_is_not_the_producer_appends_nothing(
    home: ServicesOnDisk,
    producer_id: int,
    epoch: int,
    transactional_id: str | int,
    error: type[KafkaError],
) -> None:
    """Ids never issued, unknown transactional ids, epochs that are not the current one."""
    producer = await init(home)
    wrong = Producer(producer_id or producer.id, epoch)

    with pytest.raises(error):
        produce(home, wrong, transactional_id=str(transactional_id or COPY))

    assert log_of(home, 0).log_end_offset == 0


async def test_a_second_producer_fences_the_first(home: ServicesOnDisk) -> None:
    """Its open transaction is aborted; whatever it does afterwards is refused."""
    first = await init(home)
    produce(home, first)

    with pytest.raises(ConcurrentTransactions):
        await init(home)
    second = await init(home)

    assert second == Producer(first.id, first.epoch + 2)
    with pytest.raises(InvalidProducerEpoch):
        produce(home, first, sequence=1)
    with pytest.raises(InvalidProducerEpoch):
        produce(home, first, 1)
    with pytest.raises(ProducerFenced):
        end(home, first)
    produce(home, second)
    end(home, second)
    assert read_committed(log_of(home, 0)) == [2]


async def test_a_producer_that_recovers_names_its_epoch(home: ServicesOnDisk) -> None:
    """KIP-360: the next epoch; once it has been replaced, no more."""
    producer = await init(home)
    coordinator = home.services.transactions()
    begun = await coordinator.initialise(COPY, Expected(*producer), TIMEOUT_MS)
    again = await coordinator.initialise(COPY, Expected(*producer), TIMEOUT_MS)
    await init(home)

    assert (begun.producer_epoch, again.producer_epoch) == (1, 1)
    with pytest.raises(ProducerFenced):
        await coordinator.initialise(COPY, Expected(*producer), TIMEOUT_MS)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_time_outs_that_are_refused(home: ServicesOnDisk, timeout_ms: int) -> None:
    """Zero, negative, above transaction.max.timeout.ms."""
    with pytest.raises(InvalidTransactionTimeout):
        await home.services.transactions().initialise(COPY, None, timeout_ms)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_transaction_that_takes_too_long_is_aborted(
    home: ServicesOnDisk, version: int
) -> None:
    """Readers get on, and the producer is fenced."""
    await home.services.features.update(
        [Update("transaction.version", version, 3 if version < 2 else 1)], validate_only=False
    )
    producer = await init(home)
    produce(home, producer)
    coordinator = home.services.transactions()

    home.clock.advance(TIMEOUT_MS)
    await coordinator.abort_timed_out()
    still_open = state_of(home)
    home.clock.advance(1)
    await coordinator.abort_timed_out()

    assert still_open is S.ONGOING
    assert state_of(home) is S.COMPLETE_ABORT
    assert log_of(home, 0).last_stable_offset == 2
    assert read_committed(log_of(home, 0)) == []
    with pytest.raises(InvalidTxnState if version == 2 else ProducerFenced):
        end(home, producer, version=version)
    with pytest.raises(InvalidProducerEpoch):
        produce(home, producer, sequence=1)


@pytest.mark.parametrize(("version", "form"), [(0, 0), (1, 1), (2, 1)])
async def test_the_feature_decides_how_records_are_written(
    home: ServicesOnDisk, version: int, form: int
) -> None:
    """Version 0 of the value for brokers that would not know another."""
    await home.services.features.update(
        [Update("transaction.version", version, 3 if version < 2 else 1)], validate_only=False
    )
    await init(home)

    partition = home.services.transactions().journal.partition_for(COPY)
    log = log_of(home, partition, TRANSACTIONS_TOPIC)
    read = log.read(0, 1 << 20, log.log_end_offset)
    assert read is not None
    (record,) = iterate_records(read.segment.read(read.slice.position, read.slice.size))
    assert record.value is not None
    assert record.value[:2] == form.to_bytes(2)


async def test_offsets_count_when_the_transaction_is_committed(home: ServicesOnDisk) -> None:
    """Pending until then; forgotten if it is aborted."""
    groups = home.services.groups()
    producer = await init(home)
    commit_offset(home, producer, 5)
    pending = groups.offsets.is_pending(GROUP, "orders", 0), groups.offsets.find(GROUP, "orders", 0)
    producer = following(end(home, producer))
    committed = groups.offsets.find(GROUP, "orders", 0)
    commit_offset(home, producer, 9)
    end(home, producer, commit=False)
    kept = groups.offsets.find(GROUP, "orders", 0)

    assert pending == (True, None)
    assert committed is not None
    assert kept is not None
    assert (committed.offset, kept.offset) == (5, 5)
    assert not groups.offsets.is_pending(GROUP, "orders", 0)


async def test_epochs_run_out(home: ServicesOnDisk) -> None:
    """The client goes on with another producer id and epoch 0, its old markers stay its own."""
    producer = await init(home)
    coordinator = home.services.transactions()
    last = Producer(producer.id, MAX_EPOCH - 1)
    known = coordinator._states.all
    known[COPY] = known[COPY]._replace(producer_epoch=last.epoch)
    produce(home, last)
    wanted = End(*last, is_commit=True, client_version=2)

    at_once = coordinator.end_at_once(COPY, wanted)
    ended = await coordinator.end(COPY, wanted)
    again = await coordinator.end(COPY, wanted)

    assert at_once is None
    assert ended.producer_id != producer.id
    assert ended.producer_epoch == 0
    assert following(again) == following(ended)
    assert log_of(home, 0).producers.producers[producer.id].epoch == MAX_EPOCH
    produce(home, following(ended))
    end(home, following(ended))
    assert read_committed(log_of(home, 0)) == [0, 2]


@pytest.mark.parametrize("is_new_producer", [False, True], ids=["time-out", "InitProducerId"])
async def test_epochs_run_out_of_a_transaction_that_is_fenced(
    home: ServicesOnDisk, is_new_producer: bool
) -> None:
    """Its producer gets the new producer id whatever it asks, and goes on with it."""
    producer = await init(home)
    coordinator = home.services.transactions()
    last = Producer(producer.id, MAX_EPOCH - 1)
    known = coordinator._states.all
    known[COPY] = known[COPY]._replace(producer_epoch=last.epoch)
    produce(home, last)

    if is_new_producer:
        with pytest.raises(ConcurrentTransactions):
            await init(home)
    else:
        home.clock.advance(TIMEOUT_MS + 1)
        await coordinator.abort_timed_out()
    described = coordinator.describe(COPY)
    ended = end(home, last, commit=False)
    begun = await coordinator.initialise(COPY, Expected(*last), TIMEOUT_MS)

    assert described.state is S.COMPLETE_ABORT
    assert log_of(home, 0).producers.producers[producer.id].epoch == MAX_EPOCH
    assert described.producer_id not in {producer.id, -1}
    for told in (described, ended, begun):
        assert following(told) == Producer(described.producer_id, 0)
    produce(home, following(begun))
    end(home, following(begun))
    assert read_committed(log_of(home, 0)) == [2]


async def test_a_disk_that_refuses_the_decision_leaves_all_as_it_was(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks again."""
    producer = await init(home)
    produce(home, producer)

    def refuse(*_: object) -> None:
        raise NotCoordinator

    with monkeypatch.context() as patch:
        patch.setattr(home.services.transactions().journal, "append", refuse)
        with pytest.raises(NotCoordinator):
            end(home, producer)
        with pytest.raises(NotEnoughReplicas):
            produce(home, producer, 1)
        home.clock.advance(TIMEOUT_MS + 1)
        await home.services.transactions().abort_timed_out()

    assert state_of(home) is S.ONGOING
    end(home, producer)
    assert read_committed(log_of(home, 0)) == [0]


async def test_a_disk_that_refuses_a_marker_is_tried_again(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision is carried out as soon as it can be; until then nobody gets further."""
    producer = await init(home)
    produce(home, producer, 0)
    produce(home, producer, 1)
    write = type(home.services.transactions().markers).write

    def refuse_one(self: object, target: Log, outcome: Outcome) -> None:
        if target is log_of(home, 1):
            raise NotCoordinator
        write(home.services.transactions().markers, target, outcome)

    with monkeypatch.context() as patch:
        patch.setattr(type(home.services.transactions().markers), "write", refuse_one)
        after = following(end(home, producer))
        with pytest.raises(NotEnoughReplicas):
            produce(home, after)
        with pytest.raises(ConcurrentTransactions):
            end(home, producer)

    assert state_of(home) is S.PREPARE_COMMIT
    await home.services.transactions().settle()
    assert state_of(home) is S.COMPLETE_COMMIT
    assert [read_committed(log_of(home, partition)) for partition in range(2)] == [[0], [0]]


async def test_a_deleted_topic_needs_no_marker(home: ServicesOnDisk) -> None:
    """The transaction is completed without it."""
    producer = await init(home)
    await home.services.topics.create("gone", 1, {})
    home.services.transactions().add_partitions(COPY, *producer, [("gone", 0)], client_version=2)
    produce(home, producer)
    await home.services.topics.delete(home.services.topics.topics["gone"])

    end(home, producer)

    assert state_of(home) is S.COMPLETE_COMMIT
    assert read_committed(log_of(home, 0)) == [0]


async def test_a_partition_that_a_newer_epoch_wrote_to_does_not_hold_up(
    home: ServicesOnDisk,
) -> None:
    """An administrator's marker, say: the transaction has ended there."""
    producer = await init(home)
    produce(home, producer)
    home.services.transactions().markers.write(
        log_of(home, 0), Outcome(producer.id, 9, is_commit=False, coordinator_epoch=0)
    )

    end(home, producer)

    assert state_of(home) is S.COMPLETE_COMMIT
    assert read_committed(log_of(home, 0)) == []


async def test_a_coordinator_of_before_does_not_fence_this_one(home: ServicesOnDisk) -> None:
    """Folders come from clusters whose coordinators had greater epochs; nothing may hang."""
    producer = await init(home)
    produce(home, producer)
    home.services.transactions().markers.write(
        log_of(home, 0), Outcome(*producer, is_commit=False, coordinator_epoch=7)
    )
    produce(home, producer, sequence=1)

    end(home, producer)

    assert read_committed(log_of(home, 0)) == [2]
    assert log_of(home, 0).last_stable_offset == log_of(home, 0).log_end_offset
    assert log_of(home, 0).producers.producers[producer.id].coordinator_epoch == 7


async def test_a_very_large_transaction_does_not_hold_the_loop(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its markers are written some at a time, after the answer; nobody gets further meanwhile."""
    monkeypatch.setattr("siltstone.broker.transactions.coordinator._INLINE_MARKERS", 2)
    monkeypatch.setattr("siltstone.broker.process.loop_share.FIRST_PIECE", 1)
    producer = await init(home)
    for partition in range(3):
        produce(home, producer, partition)

    after = following(end(home, producer))
    at_first = state_of(home)
    await home.services.transactions().settle()
    with pytest.raises(NotEnoughReplicas):
        produce(home, after)
    await home.services.transactions().close()

    assert at_first is S.PREPARE_COMMIT
    assert state_of(home) is S.COMPLETE_COMMIT
    assert [log_of(home, partition).log_end_offset for partition in range(3)] == [2, 2, 2]


async def test_to_order_the_markers_of_a_large_transaction_does_not_hold_the_loop(
    home: ServicesOnDisk,
) -> None:
    """There may be as many as the broker has partitions; here their topics were deleted."""
    coordinator = home.services.transactions()
    await init(home)
    gone = frozenset((f"gone-{index % 1000}", index) for index in range(150_000))
    states = coordinator._states
    states._publish(COPY, states.all[COPY]._replace(state=S.PREPARE_COMMIT, partitions=gone))
    turns = []

    async def go_round() -> None:
        while True:
            turns.append(time.thread_time())
            await asyncio.sleep(0)

    beside = asyncio.create_task(go_round())
    coordinator._complete(COPY)
    await coordinator.close()
    beside.cancel()

    assert state_of(home) is S.COMPLETE_COMMIT
    assert max(after - before for before, after in pairwise(turns)) < 0.12


async def test_ids_that_nobody_uses_expire(home: ServicesOnDisk) -> None:
    """A tombstone; an open transaction keeps its id, and so does one that was just used."""
    coordinator = home.services.transactions()
    await init(home, "old")
    producer = await init(home)
    produce(home, producer)
    home.clock.advance(7 * DAY_MS - 1)
    await coordinator.remove_expired()
    kept = len(coordinator)
    await init(home, "new")
    home.clock.advance(1)
    await coordinator.remove_expired()

    assert kept == 2
    assert sorted(each for each, _ in coordinator.list_all()) == [COPY, "new"]
    assert ("old", None) in journal(home)
    with pytest.raises(InvalidProducerIdMapping):
        coordinator.end_at_once("old", End(producer.id, 0, is_commit=True, client_version=2))


async def test_a_restart_knows_every_id(tmp_path: Path) -> None:
    """Producers go on where they were."""
    home = await open_home(tmp_path)
    producer = await init(home)
    produce(home, producer)
    await init(home, "other")
    before = dict(home.services.transactions().list_all())
    await home.close()
    again = await open_home(tmp_path)

    assert dict(again.services.transactions().list_all()) == before
    produce(again, producer, sequence=1)
    end(again, producer)
    assert read_committed(log_of(again, 0)) == [0, 1]
    await again.close()


async def test_nothing_is_served_before_the_journal_is_read(home: ServicesOnDisk) -> None:
    """The client asks again; Produce says so in words that every client retries."""
    producer = await init(home)
    coordinator = home.services.transactions()
    coordinator.journal.begin_loading()

    with pytest.raises(CoordinatorLoadInProgress):
        end(home, producer)
    with pytest.raises(CoordinatorLoadInProgress):
        await init(home)
    with pytest.raises(CoordinatorLoadInProgress):
        coordinator.list_all()
    with pytest.raises(NotEnoughReplicas):
        produce(home, producer)
    await coordinator.load()

    produce(home, producer)
    end(home, producer)


async def test_the_journal_is_where_kafka_puts_it(home: ServicesOnDisk) -> None:
    """Compacted, uncompressed, by Java's hash of the id; groups' offsets are another topic."""
    await init(home)
    topic = home.services.topics.topics[TRANSACTIONS_TOPIC]

    assert topic.is_internal
    assert topic.config.cleanup_policy == ("compact",)
    assert topic.config.compression_type == "uncompressed"
    assert home.services.transactions().journal.partition_for("copy") == 3_059_573 % 2
    assert OFFSETS_TOPIC in home.services.topics.topics


async def test_ids_expire_at_their_own_interval(tmp_path: Path) -> None:
    """However seldom time-outs are looked for."""
    home = await ServicesOnDisk(
        tmp_path,
        transaction_state_log_num_partitions="1",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="3600000",
        transaction_remove_expired_transaction_cleanup_interval_ms="1",
    ).open()
    await home.services.transactions().journal.ensure_created()
    await init(home)
    home.clock.advance(8 * DAY_MS)
    running = asyncio.create_task(home.services.transactions().run())

    await give_turns_until(
        lambda: len(home.services.transactions()), "no transactional id that is known", equals(0)
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await home.close()
