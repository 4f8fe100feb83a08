"""A broker as tests of others hold it, with stock clients that do not know of it."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from siltstone.testing import AskedInVain, Kafka, Refused, async_broker, broker
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]


@pytest.fixture(scope="module")
def running() -> Iterator[Kafka]:
    """One broker for all tests here."""
    with broker() as started:
        yield started


@pytest.fixture
def kafka(running: Kafka) -> Iterator[Kafka]:
    """The same, as each test finds it."""
    yield running
    running.heal()
    running.clear()


class Outcome:
    """The delivery report of one record."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.message: Message | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report."""
        self.error, self.message = error, message


def make_producer(kafka: Kafka, **settings: Any) -> Producer:
    """Return a producer that sends each record at once."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0, **named})


def send(producer: Producer, topic: str, value: bytes | None, key: bytes = b"k") -> Outcome:
    """Send a record and wait for its report."""
    outcome = Outcome()
    producer.produce(topic, value, key, on_delivery=outcome)
    assert producer.flush(PATIENCE) == 0
    return outcome


def make_consumer(kafka: Kafka, group: str, **settings: Any) -> Consumer:
    """Return a consumer of a group."""
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )


def read_all(kafka: Kafka, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return the keys and values in partition 0, tombstones too."""
    consumer = make_consumer(kafka, "nobody", **{"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    records = []
    while True:
        message = consumer.poll(PATIENCE)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        records.append((message.key(), message.value()))
    consumer.close()
    return records


def state_of(kafka: Kafka, group: str) -> tuple[ConsumerGroupState, int]:
    """Return the state of a group and how many members it has."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    told = admin.describe_consumer_groups([group])[group].result(PATIENCE)
    return told.state, len(told.members)


# Topics


def test_topics_have_names_of_their_own(kafka: Kafka) -> None:
    """As many partitions as asked for, and the settings."""
    first, second = kafka.create_topic(partitions=3), kafka.create_topic()
    named = kafka.create_topic("orders", config={"retention.ms": 5, "preallocate": True})

    assert len({first, second, named}) == 3
    assert kafka.topics() == sorted([first, second, "orders"])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert len(admin.list_topics(first, timeout=PATIENCE).topics[first].partitions) == 3
    kafka.delete_topic(first, second)
    assert kafka.topics() == ["orders"]
    with pytest.raises(Refused, match=r"topic orders: .*exists.* \(TOPIC_ALREADY_EXISTS\)"):
        kafka.create_topic("orders")


def test_clear_deletes_topics_and_groups(kafka: Kafka) -> None:
    """Without a restart, and not the broker's own."""
    topic = kafka.create_topic()
    send(make_producer(kafka), topic, b"v")
    consumer = make_consumer(kafka, "readers")
    consumer.subscribe([topic])
    assert consumer.poll(PATIENCE) is not None
    consumer.commit(asynchronous=False)
    consumer.close()
    assert kafka.groups() == ["readers"]

    kafka.clear()

    assert (kafka.topics(), kafka.groups()) == ([], [])


def test_names_are_made_of_any_words(kafka: Kafka) -> None:
    """Letters that the name of a topic must not have are left out."""
    name = kafka.unique_name("test_it[größer als/der Rest]" * 30)

    assert kafka.create_topic(name) == name
    assert name.startswith("test-it-gr-er-als-")


# Time


def test_retention_happens_when_time_passes(kafka: Kafka) -> None:
    """A week of it, which is Kafka's default."""
    topic = kafka.create_topic()
    send(make_producer(kafka), topic, b"old")

    kafka.clock.advance(days=6)
    assert read_all(kafka, topic) == [(b"k", b"old")]
    kafka.clock.advance(timedelta(hours=25))

    assert read_all(kafka, topic) == []


def test_tombstones_vanish_when_time_passes(kafka: Kafka) -> None:
    """A day after the pass that first saw them; before, they stay."""
    topic = kafka.create_topic(config={"cleanup.policy": "compact"})
    producer = make_producer(kafka)
    send(producer, topic, b"1")
    send(producer, topic, None)

    kafka.compact(topic)
    assert read_all(kafka, topic) == [(b"k", None)]
    kafka.clock.advance(hours=25)
    send(producer, topic, b"kept", key=b"other")  # there is something to clean
    kafka.compact(topic)

    assert read_all(kafka, topic) == [(b"other", b"kept")]


def test_lags_are_over_when_time_passes(kafka: Kafka) -> None:
    """A record younger than min.compaction.lag.ms is left alone, and an hour later it is not."""
    config = {"cleanup.policy": "compact", "min.compaction.lag.ms": 3_600_000}
    topic = kafka.create_topic(config=config)
    producer = make_producer(kafka)
    for value in (b"1", b"2"):
        send(producer, topic, value)

    kafka.compact(topic)
    assert read_all(kafka, topic) == [(b"k", b"1"), (b"k", b"2")]
    kafka.clock.advance(minutes=61)
    kafka.compact(topic)

    assert read_all(kafka, topic) == [(b"k", b"2")]


def test_compaction_that_has_nothing_to_do(kafka: Kafka) -> None:
    """An empty topic is no fault; one that is not compacted is."""
    topic = kafka.create_topic(config={"cleanup.policy": "compact"})
    kafka.compact(topic)

    plain = kafka.create_topic()
    with pytest.raises(AskedInVain, match="does not have compact in its"):
        kafka.compact(plain)


def test_sessions_time_out_when_time_passes(kafka: Kafka) -> None:
    """The group is empty before its member has noticed, which then comes back."""
    topic = kafka.create_topic()
    send(make_producer(kafka), topic, b"1")
    consumer = make_consumer(kafka, "members")
    consumer.subscribe([topic])
    assert consumer.poll(PATIENCE) is not None
    consumer.commit(asynchronous=False)
    assert state_of(kafka, "members") == (ConsumerGroupState.STABLE, 1)

    kafka.clock.advance(minutes=2)

    assert state_of(kafka, "members") == (ConsumerGroupState.EMPTY, 0)
    consumer.close()


def test_transactions_time_out_when_time_passes(kafka: Kafka) -> None:
    """The producer is fenced, as after a minute of silence."""
    topic = kafka.create_topic()
    producer = make_producer(kafka, transactional_id="copier")
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    send(producer, topic, b"never")

    kafka.clock.advance(minutes=2)

    with pytest.raises(KafkaException) as told:
        producer.commit_transaction(PATIENCE)
    assert told.value.args[0].fatal() or told.value.args[0].txn_requires_abort()
    assert read_all(kafka, topic) == []


def test_the_clock_is_put_back(kafka: Kafka) -> None:
    """A later test finds the time as it is; until then a restart does not change it."""
    kafka.clock.advance(hours=25)
    kafka.restart()
    assert kafka.clock.now_ms() / 1000 > time.time() + 24 * 3600

    kafka.heal()

    assert abs(kafka.clock.now_ms() / 1000 - time.time()) < PATIENCE


# Trouble


def test_a_produce_fails_once(kafka: Kafka) -> None:
    """The client is told, and the next is taken."""
    topic = kafka.create_topic()
    producer = make_producer(kafka)
    kafka.fail_next("Produce", error="INVALID_RECORD")

    failed, taken = send(producer, topic, b"1"), send(producer, topic, b"2")

    assert failed.error is not None
    assert failed.error.code() == KafkaError.INVALID_RECORD
    assert taken.error is None
    assert read_all(kafka, topic) == [(b"k", b"2")]


def test_what_a_client_tries_again(kafka: Kafka) -> None:
    """It does, as often as it fails."""
    topic = kafka.create_topic()
    producer = make_producer(kafka, retry_backoff_ms=1, retry_backoff_max_ms=1)
    kafka.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)

    assert send(producer, topic, b"1").error is None
    assert read_all(kafka, topic) == [(b"k", b"1")]


def test_only_of_one_topic(kafka: Kafka) -> None:
    """Requests for others go well."""
    bad, good = kafka.create_topic(), kafka.create_topic()
    producer = make_producer(kafka)
    kafka.fail_next("Produce", error="INVALID_RECORD", topic=bad)

    assert send(producer, good, b"1").error is None
    assert send(producer, bad, b"1").error is not None
    assert send(producer, bad, b"1").error is None


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "DISCONNECT"),
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "NOT_COORDINATOR"),
        ("Heartbeat", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
        ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_consumer_gets_over_it(kafka: Kafka, api: str, error: str) -> None:
    """The duty of every client: it reads all records, once each."""
    topic = kafka.create_topic()
    producer = make_producer(kafka)
    send(producer, topic, b"1")
    kafka.fail_next(api, error=error)
    consumer = make_consumer(kafka, f"readers-{api}-{error}", **{"session.timeout.ms": 6000})
    consumer.subscribe([topic])

    found = [consumer.poll(PATIENCE)]
    send(producer, topic, b"2")
    found.append(consumer.poll(PATIENCE))
    consumer.commit(asynchronous=False)
    consumer.close()

    assert [each is not None and each.value() for each in found] == [b"1", b"2"]
    said = kafka.log.rpartition(f"requests are to fail api={api}")[2]
    if error == "DISCONNECT":
        assert "a test has asked for it" in said


def test_an_incremental_fetch_fails_too(kafka: Kafka) -> None:
    """It names no partition: its session ends first, and the next request fails."""
    topic = kafka.create_topic()
    producer = make_producer(kafka)
    send(producer, topic, b"1")
    errors: list[KafkaError] = []
    consumer = make_consumer(kafka, "nobody", error_cb=errors.append)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert consumer.poll(PATIENCE) is not None

    kafka.fail_next("Fetch", error="TOPIC_AUTHORIZATION_FAILED", topic=topic)
    told = consumer.poll(PATIENCE)

    error = None if told is None else told.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"api": "Produc", "error": "UNKNOWN_SERVER_ERROR"}, "did you mean Produce?"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ({"api": "Produce", "error": "none"}, "'none' is no error of Kafka's"),
        ({"api": "Produce", "error": "DISCONNECT", "times": -1}, "times=-1 is not a number from 0"),
    ],
)
def test_nonsense_is_refused(kafka: Kafka, asked: dict[str, Any], sentence: str) -> None:
    """In a sentence that names the nearest; nothing fails."""
    with pytest.raises(AskedInVain) as told:
        kafka.fail_next(**asked)

    assert sentence in str(told.value)
    assert send(make_producer(kafka), kafka.create_topic(), b"1").error is None


def test_a_slow_disk(kafka: Kafka) -> None:
    """An append takes its time, and others are served meanwhile; then it is as before."""
    topic = kafka.create_topic()
    producer = make_producer(kafka)
    send(producer, topic, b"1")
    kafka.slow("append", 0.5)

    began = time.monotonic()
    producer.produce(topic, b"2")
    producer.poll(0)
    assert topic in kafka.topics()
    assert len(producer) == 1
    assert producer.flush(PATIENCE) == 0
    assert time.monotonic() - began >= 0.5

    kafka.slow("append", 0)
    assert send(producer, topic, b"3").error is None
    assert [value for _, value in read_all(kafka, topic)] == [b"1", b"2", b"3"]


def test_a_pause(kafka: Kafka) -> None:
    """Nobody answers, connections stay, and then it goes on."""
    topic = kafka.create_topic()
    producer = make_producer(kafka)
    send(producer, topic, b"1")

    kafka.pause()
    producer.produce(topic, b"2")
    assert producer.flush(0.2) == 1
    for ask in (kafka.topics, kafka.clock.now_ms):
        with pytest.raises(AskedInVain, match=r"is paused and does not answer; resume\(\)"):
            ask()
    kafka.resume()

    assert producer.flush(PATIENCE) == 0


def test_a_kill_and_a_restart(kafka: Kafka) -> None:
    """Acknowledged records stay, and clients find them where they were."""
    topic = kafka.create_topic()
    producer = make_producer(kafka, reconnect_backoff_ms=1, reconnect_backoff_max_ms=5)
    send(producer, topic, b"1")
    before = kafka.bootstrap_servers, kafka.pid

    kafka.kill()
    producer.produce(topic, b"2")
    assert producer.flush(0.1) == 1
    with pytest.raises(AskedInVain, match="does not run"):
        kafka.fail_next("Produce", error="DISCONNECT")
    with pytest.raises(AskedInVain, match=r"does not answer \(Connection refused\)"):
        kafka.topics()
    with pytest.raises(AskedInVain, match="does not run"):
        kafka.pause()
    kafka.restart()

    assert producer.flush(PATIENCE) == 0
    assert [value for _, value in read_all(kafka, topic)] == [b"1", b"2"]
    assert kafka.bootstrap_servers == before[0]
    assert kafka.pid != before[1]


def test_all_is_well_after_a_test(kafka: Kafka) -> None:
    """Whatever it did and left."""
    topic = kafka.create_topic()
    kafka.fail_next("Metadata", error="DISCONNECT", times=1000)
    kafka.slow("Produce", 3600)
    kafka.pause()
    kafka.kill()

    kafka.heal()

    assert send(make_producer(kafka), topic, b"1").error is None


SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def look(kafka: Kafka, topic: str) -> list[Any]:
    """Return what a test might have left behind, as clients see it."""
    admin: Any = AdminClient({"bootstrap.servers": kafka.listeners["PLAINTEXT"]})
    latest: Any = OffsetSpec.latest
    whose: Any = None
    every_acl = AclBindingFilter(
        ResourceType.ANY,
        whose,
        ResourcePatternType.ANY,
        whose,
        whose,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    resources = [(ConfigResource.Type.BROKER, "1"), (ConfigResource.Type.TOPIC, topic)]
    described = admin.describe_configs([ConfigResource(*each) for each in resources])
    partition = TopicPartition(topic, 0)
    committed = admin.list_offsets(
        {partition: latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    every = admin.list_offsets({partition: latest()})
    return [
        admin.describe_acls(every_acl).result(PATIENCE),
        sorted(admin.describe_user_scram_credentials().result(PATIENCE)),
        *(
            {each.name: each.value for each in future.result(PATIENCE).values()}
            for future in described.values()
        ),
        every[partition].result(PATIENCE).offset - committed[partition].result(PATIENCE).offset,
    ]


def test_what_a_test_changed_is_put_back() -> None:
    """Settings, ACLs, users and transactions, over a kill too; those of before stay."""
    with broker(SECURED) as kafka:
        plain: Any = {"bootstrap.servers": kafka.listeners["PLAINTEXT"]}
        admin = AdminClient(plain)
        shared = kafka.create_topic(config={"retention.ms": 60_000})
        upserts: list[Any] = [
            UserScramCredentialUpsertion(
                name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret"
            )
            for name in ("ada", "bob")
        ]
        admin.alter_user_scram_credentials(upserts[:1])["ada"].result(PATIENCE)
        before = look(kafka, shared)

        with kafka.restored():
            kafka.create_topic()
            acl = AclBinding(
                ResourceType.TOPIC,
                shared,
                ResourcePatternType.LITERAL,
                "User:ada",
                "*",
                AclOperation.READ,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([acl])[acl].result(PATIENCE)
            admin.alter_user_scram_credentials(upserts[1:])["bob"].result(PATIENCE)
            for kind, name, setting in (
                (ConfigResource.Type.BROKER, "1", "message.max.bytes"),
                (ConfigResource.Type.TOPIC, shared, "max.message.bytes"),
            ):
                entry = ConfigEntry(setting, "1000", incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(kind, name, incremental_configs=[entry])
                admin.incremental_alter_configs([resource])[resource].result(PATIENCE)
            producer = Producer({**plain, "transactional.id": "t"})
            producer.init_transactions(PATIENCE)
            producer.begin_transaction()
            producer.produce(shared, b"1")
            producer.flush(PATIENCE)
            after = look(kafka, shared)
            kafka.kill()

        assert all(was != became for was, became in zip(before, after, strict=True))
        assert look(kafka, shared) == before
        assert kafka.topics() == [shared]


def test_listeners_of_the_test() -> None:
    """Each has a port that stays; what the fixtures ask goes over one without logins."""
    with broker(SECURED) as kafka:
        listeners = kafka.listeners
        kafka.kill()
        kafka.restart()

        assert kafka.listeners == listeners
        assert kafka.bootstrap_servers == listeners["SASL_PLAINTEXT"]
        assert kafka.create_topic() in kafka.topics()


def test_logins_everywhere() -> None:
    """The sentence says what to add."""
    settings = {**SECURED, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with broker(settings) as kafka, pytest.raises(AskedInVain, match="add PLAINTEXT://"):
        kafka.create_topic()


# Other ways to have one


def test_settings_and_a_folder_of_the_test(tmp_path: Any) -> None:
    """A folder that the test names stays, and is opened again."""
    folder = tmp_path / "data"
    settings = {"num.partitions": 3, "auto.create.topics.enable": False}
    with broker(settings, folder=folder) as first:
        topic = first.create_topic(partitions=-1)
        send(make_producer(first), topic, b"1")

    with broker(folder=folder) as second:
        assert second.topics() == [topic]
    assert folder.is_dir()


async def test_from_asyncio() -> None:
    """Whatever waits, waits in a thread."""
    async with async_broker() as kafka:
        topic = await kafka.create_topic(partitions=2)
        assert await kafka.topics() == [topic]
        await kafka.fail_next("Produce", error="INVALID_RECORD")
        await kafka.heal()
        await kafka.advance(timedelta(days=8))
        await kafka.kill()
        await kafka.restart()
        assert await kafka.topics() == [topic]
        await kafka.clear()
        assert await kafka.topics() == []
        log = kafka.sync.log
    assert "stopping" not in log
    wait_until(lambda: not kafka.sync.folder.exists(), "the end of the folder")
