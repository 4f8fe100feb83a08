"""The requests of transactions, as clients of each version read the answers."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.topics.features import SUPPORTED
from siltstone.broker.transactions.transaction import MAX_EPOCH, TransactionState
from siltstone.protocol.errors import InvalidRequest, KafkaStorageError, OutOfOrderSequence
from siltstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from siltstone.protocol.records.journal import Producer
from siltstone.storage.files import LOG
from tests.support.ask import ask
from tests.support.faults import install
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk
from tests.support.transactional import (
    COPY,
    GROUP,
    TIMEOUT_MS,
    end,
    following,
    init,
    log_of,
    open_home,
    produce,
    read_committed,
)
from tests.support.waiting import give_turns_until

E = ErrorCode
SECOND = timedelta(seconds=1)
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def add_request(
    producer: Producer,
    topics: tuple[tuple[str, int], ...],
    version: int,
    transactional_id: str = COPY,
    *,
    verify_only: bool = False,
) -> Any:
    """Return a request that has each partition in a topic of its own."""
    values = {
        "transactional_id": transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [{"name": name, "partitions": [index]} for name, index in topics],
    }
    if version < 4:
        old = {f"v3_and_below_{name}": value for name, value in values.items()}
        return request(24, version, **old)
    return request(24, version, transactions=[values | {"verify_only": verify_only}])


async def add(
    home: ServicesOnDisk,
    producer: Producer,
    *topics: tuple[str, int],
    version: int = 3,
    transactional_id: str = COPY,
    verify_only: bool = False,
) -> list[ErrorCode]:
    """Add partitions, and return the code of each."""
    wanted = add_request(producer, topics, version, transactional_id, verify_only=verify_only)
    answer = await ask(home, 24, wanted, version)
    if version < 4:
        results = answer.results_by_topic_v3_and_below
    else:
        (result,) = answer.results_by_transaction
        results = result.topic_results
    return [each.partition_error_code for topic in results for each in topic.results_by_partition]


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added(home: ServicesOnDisk, version: int) -> None:
    """In every version; a second time changes nothing."""
    producer = await init(home)
    wanted = ("orders", 0), ("orders", 1)
    for _ in range(2):
        assert await add(home, producer, *wanted, version=version) == [E.none, E.none]

    assert home.services.transactions().describe(COPY).partitions == set(wanted)


async def test_a_topic_that_is_added_twice_is_answered_once(home: ServicesOnDisk) -> None:
    """With all of its partitions, as Kafka gathers them."""
    producer = await init(home)
    request = add_request(producer, (("orders", 0), ("orders", 1)), 3)

    answer = await ask(home, 24, request, 3)

    (topic,) = answer.results_by_topic_v3_and_below
    assert [each.partition_index for each in topic.results_by_partition] == [0, 1]


async def test_a_producer_begins_at_the_beginning(home: ServicesOnDisk) -> None:
    """By transaction.version 2 a log that does not know it takes sequence 0 only; others any."""
    producer = await init(home)

    with pytest.raises(OutOfOrderSequence):
        produce(home, producer, sequence=1)
    produce(home, producer)
    produce(home, producer, sequence=1)
    produce(home, producer, 1, version=11, sequence=0) if False else None
    await add(home, producer, ("orders", 2))

    assert produce(home, producer, 2, sequence=7, version=11).base_offset == 0


async def test_a_transactional_id_is_not_empty(home: ServicesOnDisk) -> None:
    """Whichever version the client speaks."""
    producer = await init(home)

    for version in (11, 12):
        with pytest.raises(InvalidRequest):
            produce(home, producer, transactional_id="", version=version)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (("orders", 9), E.unknown_topic_or_partition),
        (("nowhere", 0), E.unknown_topic_or_partition),
        (("__consumer_offsets", 0), E.topic_authorization_failed),
    ],
)
async def test_one_bad_partition_keeps_out_all(
    home: ServicesOnDisk, bad: tuple[str, int], code: ErrorCode
) -> None:
    """It is told what is wrong, the others that nothing was tried."""
    producer = await init(home)

    assert await add(home, producer, ("orders", 0), bad) == [E.operation_not_attempted, code]
    assert home.services.transactions().describe(COPY).state is TransactionState.EMPTY


@pytest.mark.parametrize(
    ("version", "transactional_id", "epoch", "code"),
    [
        (0, "unknown", 0, E.invalid_producer_id_mapping),
        (3, "", 0, E.invalid_request),
        (1, COPY, 5, E.invalid_producer_epoch),
        (2, COPY, 5, E.producer_fenced),
        (5, COPY, 5, E.producer_fenced),
    ],
)
async def test_who_may_not_add(
    home: ServicesOnDisk, version: int, transactional_id: str, epoch: int, code: ErrorCode
) -> None:
    """Older clients know a fenced producer by another code."""
    producer = await init(home)
    wrong = Producer(producer.id, epoch)

    codes = await add(
        home,
        wrong,
        ("orders", 0),
        ("orders", 1),
        version=version,
        transactional_id=transactional_id,
    )

    assert codes == [code, code]


async def test_verification_only(home: ServicesOnDisk) -> None:
    """A broker asks so before it appends: nothing is added by it."""
    producer = await init(home)
    await add(home, producer, ("orders", 0))

    codes = await add(home, producer, ("orders", 0), ("orders", 1), version=4, verify_only=True)

    unknown = await add(home, producer, ("orders", 0), ("orders", 9), version=4, verify_only=True)

    assert codes == [E.none, E.transaction_abortable]
    assert unknown == [E.operation_not_attempted, E.unknown_topic_or_partition]
    assert home.services.transactions().describe(COPY).partitions == {("orders", 0)}


async def commit(
    home: ServicesOnDisk,
    producer: Producer,
    *,
    version: int = 5,
    group: str = GROUP,
    topic: str = "orders",
    metadata: str | None = "m",
    generation: int = -1,
    member: str = "",
) -> ErrorCode:
    """Commit offset 5 of partition 0, and return its code."""
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": metadata}
    wanted = request(
        28,
        5,
        transactional_id=COPY,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=generation,
        member_id=member,
        topics=[{"name": topic, "partitions": [row]}],
    )
    answer = await ask(home, 28, wanted, version)
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


async def test_what_cannot_be_committed_begins_no_transaction(home: ServicesOnDisk) -> None:
    """Topics that do not exist never reach the coordinator; it looks at metadata last."""
    producer = await init(home)

    assert await commit(home, producer, topic="missing") is E.unknown_topic_or_partition
    assert home.services.transactions().describe(COPY).state is TransactionState.EMPTY
    assert await commit(home, producer, version=3, metadata="m" * 5_000) is E.invalid_txn_state
    assert await commit(home, producer, metadata="m" * 5_000) is E.offset_metadata_too_large
    assert home.services.transactions().describe(COPY).state is TransactionState.ONGOING


async def test_offsets_are_committed_by_the_id_of_their_topic(home: ServicesOnDisk) -> None:
    """From v6 on (KIP-1319), as Apache Kafka 4.4.0 answers: ids come back, without names."""
    producer = await init(home)
    known = home.services.topics.topics["orders"].key
    for key, index, generation, code in (
        (known, 0, -1, E.none),
        (known, 9, -1, E.unknown_topic_or_partition),
        (bytes(16), 0, -1, E.unknown_topic_id),
        (b"\7" * 16, 0, -1, E.unknown_topic_id),
        (known, 0, 3, E.group_id_not_found),
    ):
        rows = [TxnOffsetCommitRequestPartition(index, 5)]
        topics = [TxnOffsetCommitRequestTopic(topic_id=key, partitions=rows)]
        group = GROUP if generation < 0 else "missing"
        ids = COPY, group, producer.id, producer.epoch
        wanted = TxnOffsetCommitRequest(*ids, generation, "", None, topics)

        [topic] = (await ask(home, 28, wanted, 6)).topics

        assert (topic.name, topic.topic_id) == ("", key)
        assert list(topic.partitions) == [(index, code)]


async def add_offsets(home: ServicesOnDisk, producer: Producer, version: int = 3) -> ErrorCode:
    """Make the group part of the transaction."""
    named = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    wanted = request(25, 4, transactional_id=COPY, group_id=GROUP, **named)
    code: ErrorCode = (await ask(home, 25, wanted, version)).error_code
    return code


@pytest.mark.parametrize("version", range(5))
async def test_offsets_of_older_clients_need_their_group_added(
    home: ServicesOnDisk, version: int
) -> None:
    """Else they would be pending for ever."""
    producer = await init(home)
    refused = await commit(home, producer, version=version)
    added = await add_offsets(home, producer, version)
    accepted = await commit(home, producer, version=version)

    assert refused is (E.transaction_abortable if version == 4 else E.invalid_txn_state)
    assert (added, accepted) == (E.none, E.none)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, E.none),
        ({"metadata": None}, E.none),
        ({"group": ""}, E.invalid_group_id),
        ({"topic": "nowhere"}, E.unknown_topic_or_partition),
        ({"metadata": "m" * 4097}, E.offset_metadata_too_large),
        ({"generation": 3, "member": "m"}, E.illegal_generation),
    ],
)
async def test_offsets_of_the_newest_clients(
    home: ServicesOnDisk, fields: dict[str, Any], code: ErrorCode
) -> None:
    """No request before it; each fault has Kafka's code."""
    producer = await init(home)

    assert await commit(home, producer, **fields) is code


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [(1, 9, E.invalid_producer_epoch), (2, 9, E.producer_fenced), (4, 0, E.none)],
)
async def test_who_may_add_offsets(
    home: ServicesOnDisk, version: int, epoch: int, code: ErrorCode
) -> None:
    """As with partitions."""
    producer = await init(home)

    assert await add_offsets(home, Producer(producer.id, epoch), version) is code


async def mark(
    home: ServicesOnDisk,
    producer: Producer,
    *,
    partition: int = 0,
    coordinator_epoch: int = 0,
    rules: int = 0,
    version: int = 2,
) -> ErrorCode:
    """Have an administrator's abort written."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [{"name": "orders", "partition_indexes": [partition]}],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": rules,
    }
    answer = await ask(home, 27, request(27, 2, markers=[marker]), version)
    code: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", [1, 2])
async def test_a_hanging_transaction_is_aborted_by_its_marker(
    home: ServicesOnDisk, version: int
) -> None:
    """A reader of committed records gets on."""
    producer = await init(home)
    produce(home, producer)

    assert await mark(home, producer, version=version) is E.none
    log = log_of(home, 0)
    assert (log.last_stable_offset, read_committed(log)) == (2, [])


@pytest.mark.parametrize("fails", [False, True])
async def test_a_marker_is_on_the_disk_when_an_administrator_is_answered(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """If the topic wants that of its records (flush.messages), as in Kafka."""
    producer = await init(home)
    produce(home, producer)
    topics = home.services.topics
    await topics.alter(topics.topics["orders"], {"flush.messages": "1"})
    log = log_of(home, 0)
    if fails:
        install(monkeypatch).fail("fsync", path=LOG)

    with log._flush_lock:
        asked = asyncio.ensure_future(mark(home, producer))
        await give_turns_until(lambda: log.log_end_offset == 2, "the marker")
        for _ in range(9):
            await asyncio.sleep(0)
        is_early = asked.done()

    assert await asked is (E.kafka_storage_error if fails else E.none)
    assert not is_early
    assert log.recovery_point == (0 if fails else 2)


async def test_markers_that_are_refused(home: ServicesOnDisk) -> None:
    """No such partition, an epoch of the past, an older coordinator, an epoch that is no newer."""
    producer = await init(home)
    produce(home, producer)
    producer = following(end(home, producer))
    produce(home, producer)
    await mark(home, Producer(producer.id, producer.epoch), partition=1, coordinator_epoch=3)

    assert await mark(home, producer, partition=9) is E.unknown_topic_or_partition
    assert await mark(home, Producer(producer.id, 0)) is E.invalid_producer_epoch
    assert (
        await mark(home, producer, partition=1, coordinator_epoch=2)
        is E.transaction_coordinator_fenced
    )
    assert (
        await mark(home, producer, partition=1, coordinator_epoch=-1)
        is E.transaction_coordinator_fenced
    )
    assert await mark(home, Producer(-1, 0)) is E.invalid_producer_id_mapping
    assert await mark(home, producer, rules=2) is E.invalid_producer_epoch
    assert await mark(home, Producer(producer.id, producer.epoch + 1), rules=2) is E.none


async def test_producers_of_a_partition(home: ServicesOnDisk) -> None:
    """With where their transaction began; idempotent ones are listed too."""
    producer = await init(home)
    produce(home, producer)
    asked = {"orders": (0, 1, 9), "no name!": (0,)}
    topics = [{"name": name, "partition_indexes": each} for name, each in asked.items()]

    orders, wrong = (await ask(home, 61, request(61, 0, topics=topics))).topics

    (found,) = orders.partitions[0].active_producers
    assert (found.producer_id, found.producer_epoch) == producer
    assert (found.last_sequence, found.current_txn_start_offset) == (0, 0)
    assert found.last_timestamp == home.clock.now_ms()
    assert found.coordinator_epoch == -1
    assert orders.partitions[1].active_producers == ()
    assert orders.partitions[2].error_code is E.unknown_topic_or_partition
    assert wrong.partitions[0].error_code is E.invalid_topic_exception


async def test_transactions_are_described(home: ServicesOnDisk) -> None:
    """Where each stands; unknown ids and empty ones are told apart."""
    producer = await init(home)
    produce(home, producer)
    produce(home, producer, 1)
    wanted = request(65, 0, transactional_ids=(COPY, "unknown", ""))

    found, unknown, empty = (await ask(home, 65, wanted)).transaction_states

    assert (found.error_code, found.transaction_state) == (E.none, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert found.transaction_timeout == timedelta(milliseconds=TIMEOUT_MS)
    assert found.transaction_start_time.timestamp() * 1000 == home.clock.now_ms()
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("orders", (0, 1))]
    assert unknown.error_code is E.transactional_id_not_found
    assert empty.error_code is E.invalid_request


async def listed(home: ServicesOnDisk, version: int = 2, **filters: Any) -> list[str]:
    """Return the ids that filters let through."""
    answer = await ask(home, 66, request(66, 2, **filters), version)
    assert answer.error_code is E.none
    return sorted(each.transactional_id for each in answer.transaction_states)


async def test_transactions_are_listed_by_filters(home: ServicesOnDisk) -> None:
    """States by name, producer ids, age, an expression for the whole id."""
    producer = await init(home)
    produce(home, producer)
    await init(home, "other")
    home.clock.advance(5000)

    assert await listed(home) == [COPY, "other"]
    assert await listed(home, version=0, state_filters=("Ongoing",)) == [COPY]
    assert await listed(home, state_filters=("Empty", "Nonsense")) == ["other"]
    assert await listed(home, producer_id_filters=(producer.id,)) == [COPY]
    assert await listed(home, duration_filter=5000, state_filters=("Ongoing",)) == []
    assert await listed(home, duration_filter=4999, state_filters=("Ongoing",)) == [COPY]
    assert await listed(home, transactional_id_pattern="c.*") == [COPY]
    assert await listed(home, transactional_id_pattern="op") == []
    assert await listed(home, transactional_id_pattern="") == [COPY, "other"]


async def test_filters_that_nobody_knows(home: ServicesOnDisk) -> None:
    """A state is named in the answer; a malformed expression is refused."""
    states = await ask(home, 66, request(66, 2, state_filters=("Nonsense", "Dead")))
    pattern = await ask(home, 66, request(66, 2, transactional_id_pattern="("))

    assert states.unknown_state_filters == ("Nonsense",)
    assert states.transaction_states == ()
    assert pattern.error_code is E.invalid_regular_expression


async def update(
    home: ServicesOnDisk, *updates: tuple[str, int, int], version: int = 2, validate: bool = False
) -> Any:
    """Ask for levels of features."""
    rows = [
        {"feature": feature, "max_version_level": level, "upgrade_type": kind}
        for feature, level, kind in updates
    ]
    wanted = request(57, 2, timeout=SECOND, feature_updates=rows, validate_only=validate)
    return await ask(home, 57, wanted, version)


async def test_levels_of_features_last(tmp_path: Path) -> None:
    """A restart knows them; clients are told a newer edition."""
    home = await open_home(tmp_path)
    epoch = home.services.features.epoch
    answer = await update(
        home, ("transaction.version", 1, SAFE), ("group.version", 0, UNSAFE), version=1
    )
    await home.close()
    home = await open_home(tmp_path)

    assert answer.error_code is E.none
    assert [(each.feature, each.error_code) for each in answer.results] == [
        ("transaction.version", E.none),
        ("group.version", E.none),
    ]
    assert home.services.features.level("transaction.version") == 1
    assert home.services.features.level("group.version") == 0
    assert home.services.features.epoch == epoch + 1
    await home.close()


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("nonsense.version", 1, UPGRADE), E.invalid_update_version),
        (("transaction.version", 3, UPGRADE), E.invalid_update_version),
        (("transaction.version", -1, UNSAFE), E.invalid_update_version),
        (("transaction.version", 1, UPGRADE), E.invalid_update_version),
        (("transaction.version", 1, 9), E.invalid_update_version),
        (("transaction.version", 1, 0), E.invalid_update_version),
        (("group.version", 2, UPGRADE), E.invalid_update_version),
        (("group.version", 0, UNSAFE), E.none),
        (("metadata.version", 20, UNSAFE), E.feature_update_failed),
        (("metadata.version", 30, UPGRADE), E.invalid_update_version),
        (("metadata.version", 33, UPGRADE), E.none),
        (("metadata.version", 34, UPGRADE), E.invalid_update_version),
        (("share.version", 3, UPGRADE), E.invalid_update_version),
        (("share.version", 0, SAFE), E.none),
        (("streams.version", 0, SAFE), E.none),
    ],
)
async def test_levels_that_are_refused(
    home: ServicesOnDisk, wanted: tuple[str, int, int], code: ErrorCode
) -> None:
    """All of a request or nothing of it."""
    answer = await update(home, ("group.version", 0, SAFE), wanted)

    assert answer.error_code is code
    assert home.services.features.level("group.version") == (0 if code is E.none else 1)


async def test_the_levels_of_a_whole_release_pass(home: ServicesOnDisk) -> None:
    """Those of ``kafka-features upgrade --release-version 4.4``; clients see no new ones."""
    levels = {
        "metadata.version": 33,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "kraft.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
    before = home.services.features.epoch
    answer = await update(home, *((name, level, UPGRADE) for name, level in levels.items()))
    told = await ask(
        home, 18, request(18, 4, client_software_name="t", client_software_version="1"), 4
    )

    assert answer.error_code is E.none
    assert home.services.features.epoch == before
    assert {each.name for each in told.supported_features} == set(SUPPORTED)


@pytest.mark.parametrize("may_go_down", [True, False])
async def test_in_version_0_no_level_goes_down(home: ServicesOnDisk, may_go_down: bool) -> None:
    """Apache Kafka does not look at what became the upgrade type."""
    update = {"feature": "transaction.version", "max_version_level": 1}
    updates = [update | {"allow_downgrade": may_go_down}]
    answer = await ask(home, 57, request(57, 0, timeout=SECOND, feature_updates=updates), 0)

    assert answer.error_code is E.invalid_update_version
    assert home.services.features.level("transaction.version") == 2


async def test_an_update_that_is_only_validated_changes_nothing(home: ServicesOnDisk) -> None:
    """Its answer is the same."""
    answer = await update(home, ("transaction.version", 0, SAFE), validate=True)

    assert answer.error_code is E.none
    assert home.services.features.level("transaction.version") == 2


@pytest.mark.parametrize(("version", "supported"), [(3, {"metadata.version"}), (4, set(SUPPORTED))])
async def test_features_are_told_to_clients(
    home: ServicesOnDisk, version: int, supported: set[str]
) -> None:
    """Old Java clients cannot read one that begins at 0; what is off is not finalized."""
    await update(home, ("group.version", 0, SAFE))
    answer = await ask(
        home, 18, request(18, 4, client_software_name="t", client_software_version="1"), version
    )

    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert {each.name for each in answer.supported_features} == supported
    assert finalized == {
        "eligible.leader.replicas.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert answer.finalized_features_epoch == 2


@pytest.mark.parametrize("key", [24, 25, 26])
async def test_what_is_sent_again_beside_the_fsync_waits_for_it(
    home: ServicesOnDisk, key: int
) -> None:
    """As after a lost connection: the first answer tells what is on the disk, and so the second."""
    topics = home.services.topics
    journal = home.services.transactions().journal
    await topics.alter(topics.topics[journal.name], {"flush.messages": "1"})
    producer = await init(home)
    if key == 26:
        produce(home, producer)
    await journal.flush(journal.find_unwritten_of(COPY))
    log = log_of(home, journal.partition_for(COPY), journal.name)
    whose = {"transactional_id": COPY, "producer_id": producer.id, "producer_epoch": producer.epoch}
    old = {f"v3_and_below_{name}": value for name, value in whose.items()}
    topic = {"name": "orders", "partitions": [0]}
    version, wanted = {
        24: (3, {**old, "v3_and_below_topics": [topic]}),
        25: (3, {**whose, "group_id": "g"}),
        26: (5, {**whose, "committed": True}),
    }[key]

    with log._flush_lock:
        asked = [
            asyncio.ensure_future(ask(home, key, request(key, version, **wanted), version))
            for _ in range(2)
        ]
        await give_turns_until(lambda: log.recovery_point < log.log_end_offset, "an fsync")
        assert not any(each.done() for each in asked)

    codes = [await each for each in asked]
    if key == 24:
        codes = [row.results_by_topic_v3_and_below[0].results_by_partition[0] for row in codes]
        assert [row.partition_error_code for row in codes] == [E.none] * 2
    else:
        assert [row.error_code for row in codes] == [E.none] * 2
    assert log.recovery_point == log.log_end_offset


async def test_an_end_that_is_refused_leaves_the_markers_of_others_to_the_next(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker of a time-out is on the disk when the next client of transactions is answered."""
    topics = home.services.topics
    await topics.alter(topics.topics["orders"], {"flush.messages": "1"})
    produce(home, await init(home, "late"), 1, transactional_id="late")
    home.clock.advance(TIMEOUT_MS + 1)
    producer = await init(home)
    coordinator, ids = home.services.transactions(), home.services.producer_ids
    last = Producer(producer.id, MAX_EPOCH - 1)
    known = coordinator._states.all
    known[COPY] = known[COPY]._replace(producer_epoch=last.epoch)
    produce(home, last)
    await coordinator.abort_timed_out()
    whose = {"transactional_id": COPY, "producer_id": last.id, "producer_epoch": last.epoch}
    wanted = request(26, 5, **whose, committed=True)

    async def refuse() -> int:
        raise KafkaStorageError

    with monkeypatch.context() as full:
        full.setattr(ids, "allocate", refuse)
        refused = await ask(home, 26, wanted, 5)
    answer = await ask(home, 26, wanted, 5)

    log = log_of(home, 1)
    assert (refused.error_code, answer.error_code) == (E.kafka_storage_error, E.none)
    assert (log.log_end_offset, log.recovery_point) == (2, 2)


async def test_an_end_that_is_sent_again_waits_for_the_markers(home: ServicesOnDisk) -> None:
    """Also if the connection of the first request is lost before its fsyncs."""
    topics = home.services.topics
    producer = await init(home)
    for index in range(2):
        produce(home, producer, index)
    await asyncio.to_thread(log_of(home, 1).flush)
    await topics.alter(topics.topics["orders"], {"flush.messages": "1"})
    whose = {"transactional_id": COPY, "producer_id": producer.id, "producer_epoch": producer.epoch}
    wanted = request(26, 5, **whose, committed=True)
    logs = [log_of(home, index) for index in range(2)]

    with logs[0]._flush_lock:
        first, again = (asyncio.ensure_future(ask(home, 26, wanted, 5)) for _ in range(2))
        await give_turns_until(lambda: logs[1].log_end_offset == 2, "the markers")
        for _ in range(9):
            await asyncio.sleep(0)
        is_early = again.done()
        first.cancel()
    answer = await again

    assert not is_early
    assert answer.error_code is E.none
    assert [each.recovery_point for each in logs] == [2, 2]
