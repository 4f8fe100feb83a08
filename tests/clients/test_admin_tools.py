"""Kafka's own administration tools, as people type them."""

import json
import re
from pathlib import Path

import pytest

from tests.clients.conftest import NewTopic, settle, settle_gone
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.messages import START, by_time, sample, stored

pytestmark = [pytest.mark.client, pytest.mark.java]

Broker = SiltstoneProcess | KafkaBroker
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
SERVED = {
    "Produce": (0, 13), "Fetch": (4, 18), "ListOffsets": (1, 11), "Metadata": (0, 13),
    "FindCoordinator": (0, 6), "ApiVersions": (0, 5), "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6), "DeleteRecords": (0, 2), "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (2, 4),
    "DescribeConfigs": (1, 4), "AlterConfigs": (0, 2), "DescribeLogDirs": (1, 5),
    "AlterReplicaLogDirs": (1, 2),
    "CreatePartitions": (0, 3), "ElectLeaders": (0, 2), "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 1), "ListPartitionReassignments": (0, 0),
    "DescribeQuorum": (0, 2), "DescribeCluster": (0, 2), "ListConfigResources": (0, 1),
    "DescribeTopicPartitions": (0, 0),
    "OffsetCommit": (2, 10), "OffsetFetch": (1, 10), "JoinGroup": (0, 9), "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5), "SyncGroup": (0, 5), "DescribeGroups": (0, 6), "ListGroups": (0, 5),
    "DeleteGroups": (0, 3), "OffsetDelete": (0, 0), "ConsumerGroupHeartbeat": (0, 1),
    "ConsumerGroupDescribe": (0, 1), "AddPartitionsToTxn": (0, 5), "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5), "WriteTxnMarkers": (1, 2), "TxnOffsetCommit": (0, 6),
    "UpdateFeatures": (0, 2), "DescribeProducers": (0, 0), "DescribeTransactions": (0, 0),
    "UnregisterBroker": (0, 0), "UnregisterController": (0, 0),
    "ShareGroupHeartbeat": (1, 1), "ShareGroupDescribe": (1, 1), "ShareFetch": (1, 2),
    "ShareAcknowledge": (1, 2), "InitializeShareGroupState": (0, 0),
    "ReadShareGroupState": (0, 0), "WriteShareGroupState": (0, 1),
    "DeleteShareGroupState": (0, 0), "ReadShareGroupStateSummary": (0, 1),
    "DescribeShareGroupOffsets": (0, 1), "AlterShareGroupOffsets": (0, 0),
    "DeleteShareGroupOffsets": (0, 0),
    "StreamsGroupHeartbeat": (0, 1), "StreamsGroupDescribe": (0, 1),
    "StreamsGroupTopologyDescriptionUpdate": (0, 0),
    "ListTransactions": (0, 2), "SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2),
    "DescribeAcls": (1, 3), "CreateAcls": (1, 3), "DeleteAcls": (1, 3),
    "DescribeClientQuotas": (0, 1), "AlterClientQuotas": (0, 1),
    "DescribeUserScramCredentials": (0, 0), "AlterUserScramCredentials": (0, 0),
}  # fmt: skip


def test_topics_tool_creates_describes_grows_lists_and_deletes(
    broker: Broker, kafka_tools: KafkaTools, topic_name: str
) -> None:
    """The life of a topic through kafka-topics."""
    at = ("--bootstrap-server", broker.bootstrap, "--topic", topic_name)

    created = kafka_tools.run(
        "TopicCommand", "--create", *at, "--partitions", "2", "--config", "retention.ms=5000000"
    )
    settle(broker, topic_name, 2)
    described = kafka_tools.run("TopicCommand", "--describe", *at)

    assert f"Created topic {topic_name}." in created
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=5000000" in described
    assert re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: \2\s+Isr: \2", described) == [
        ("0", "1"),
        ("1", "1"),
    ]

    kafka_tools.run("TopicCommand", "--alter", *at, "--partitions", "3")
    settle(broker, topic_name, 3)
    listed = kafka_tools.run("TopicCommand", "--list", *at[:2]).split()

    assert "PartitionCount: 3" in kafka_tools.run("TopicCommand", "--describe", *at)
    assert topic_name in listed

    kafka_tools.run("TopicCommand", "--delete", *at)
    settle_gone(broker, topic_name)

    assert topic_name not in kafka_tools.run("TopicCommand", "--list", *at[:2]).split()


def test_topics_tool_says_why_it_cannot_create(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """A second creation and a bad setting end with Kafka's sentence, not a time-out."""
    topic = new_topic()
    at = ("--create", "--bootstrap-server", broker.bootstrap, "--topic")

    second = kafka_tools.try_run("TopicCommand", *at, topic)
    faulty = kafka_tools.try_run("TopicCommand", *at, f"{topic}-b", "--config", "retention.ms=-7")

    assert second.returncode == 1
    assert "already exists" in second.stdout + second.stderr
    assert faulty.returncode == 1
    assert "retention.ms" in faulty.stdout + faulty.stderr


def test_configs_tool_changes_and_describes_a_topic(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-configs sets, shows with its source, and removes a topic's setting."""
    topic = new_topic()
    entity = (
        "--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", topic,
    )  # fmt: skip

    kafka_tools.run(CONFIGS, "--alter", *entity, "--add-config", "segment.ms=7000000")
    changed = kafka_tools.run(CONFIGS, "--describe", *entity)
    everything = kafka_tools.run(CONFIGS, "--describe", "--all", *entity)
    kafka_tools.run(CONFIGS, "--alter", *entity, "--delete-config", "segment.ms")
    removed = kafka_tools.run(CONFIGS, "--describe", *entity)

    line = "segment.ms=7000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=7000000}"
    assert line in changed
    assert "cleanup.policy=delete sensitive=false" in everything
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in everything
    assert "segment.ms=7000000" not in removed


def test_configs_tool_changes_the_broker(broker: Broker, kafka_tools: KafkaTools) -> None:
    """A dynamic broker setting is shown before its default, and again gone when removed."""
    entity = (
        "--bootstrap-server", broker.bootstrap, "--entity-type", "brokers", "--entity-name", "1",
    )  # fmt: skip
    name = "log.segment.delete.delay.ms"

    kafka_tools.run(CONFIGS, "--alter", *entity, "--add-config", f"{name}=5000")
    changed = kafka_tools.run(CONFIGS, "--describe", *entity)
    kafka_tools.run(CONFIGS, "--alter", *entity, "--delete-config", name)
    removed = kafka_tools.run(CONFIGS, "--describe", *entity)

    assert (
        f"{name}=5000 sensitive=false synonyms="
        f"{{DYNAMIC_BROKER_CONFIG:{name}=5000, DEFAULT_CONFIG:{name}=60000}}"
    ) in changed
    assert f"{name}=5000" not in removed


def test_configs_tool_changes_a_logger(broker: Broker, kafka_tools: KafkaTools) -> None:
    """A logger gets a level of its own and gives it back to the one above."""
    entity = (
        "--bootstrap-server", broker.bootstrap,
        "--entity-type", "broker-loggers", "--entity-name", "1",
    )  # fmt: skip
    before = kafka_tools.run(CONFIGS, "--describe", *entity)
    found = re.search(r"^  ([\w.]+\.[\w.]+)=(?!TRACE|root)", before, re.MULTILINE)
    assert found is not None
    name = found[1]

    kafka_tools.run(CONFIGS, "--alter", *entity, "--add-config", f"{name}=TRACE")
    changed = kafka_tools.run(CONFIGS, "--describe", *entity)
    kafka_tools.run(CONFIGS, "--alter", *entity, "--delete-config", name)
    removed = kafka_tools.run(CONFIGS, "--describe", *entity)

    assert f"  {name}=TRACE " in changed
    assert f"  {name}=TRACE " not in removed


def test_offsets_tool_knows_start_end_and_times(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-get-offsets answers latest, earliest, max-timestamp and a time exactly."""
    topic = new_topic(partitions=2)
    messages = sample(20)
    Confluent(broker.bootstrap).produce(topic, messages)
    found = by_time(stored(messages), START + 50_000)
    newest = max(stored(messages), key=lambda each: each.message.timestamp)
    at = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--time")
    assert found is not None

    assert kafka_tools.run("GetOffsetShell", *at, "latest").split() == [
        f"{topic}:0:20",
        f"{topic}:1:0",
    ]
    assert kafka_tools.run("GetOffsetShell", *at, "earliest").split() == [
        f"{topic}:0:0",
        f"{topic}:1:0",
    ]
    assert f"{topic}:0:{newest.offset}" in kafka_tools.run("GetOffsetShell", *at, "max-timestamp")
    timed = kafka_tools.run("GetOffsetShell", *at, str(START + 50_000)).split()
    assert f"{topic}:0:{found.offset}" in timed


def test_delete_records_tool_moves_the_first_offset(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic, tmp_path: Path
) -> None:
    """kafka-delete-records reports the new first offset, and readers start there."""
    topic = new_topic()
    messages = sample(20)
    client = Confluent(broker.bootstrap)
    client.produce(topic, messages)
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 7}], "version": 1}
    (tmp_path / "delete.json").write_text(json.dumps(wanted))

    said = kafka_tools.run(
        "DeleteRecordsCommand", "--bootstrap-server", broker.bootstrap,
        "--offset-json-file", str(tmp_path / "delete.json"),
    )  # fmt: skip

    assert f"partition: {topic}-0\tlow_watermark: 7" in said
    assert client.bounds(topic) == (7, 20)
    assert client.read(topic, 7, 13) == stored(messages)[7:]


def test_log_dirs_tool_reports_the_bytes_on_disk(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-log-dirs reports the folder and each partition's size to the byte."""
    topic = new_topic(partitions=2)
    Confluent(broker.bootstrap).produce(topic, sample(20))

    said = kafka_tools.run(
        "LogDirsCommand", "--describe", "--bootstrap-server", broker.bootstrap,
        "--topic-list", topic,
    )  # fmt: skip

    (described,) = json.loads(said.splitlines()[-1])["brokers"]
    (folder,) = described["logDirs"]
    sizes = {each["partition"]: each["size"] for each in folder["partitions"]}
    written = sum(each.stat().st_size for each in (broker.folder / f"{topic}-0").glob("*.log"))
    assert folder["error"] is None
    assert folder["logDir"] == str(broker.folder)
    assert sizes == {f"{topic}-0": written, f"{topic}-1": 0}
    assert written > 2000


def test_api_versions_tool_finds_kafkas_ranges(broker: Broker, kafka_tools: KafkaTools) -> None:
    """Every API that is served is announced with the versions of Apache Kafka 4.4.0."""
    said = kafka_tools.run("BrokerApiVersionsCommand", "--bootstrap-server", broker.bootstrap)

    ranges = {
        name: (int(low), int(high or low))
        for name, low, high in re.findall(r"(\w+)\(\d+\): (\d+)(?: to (\d+))? \[usable", said)
    }
    assert said.startswith(f"{broker.bootstrap} (id: 1 rack: null")
    assert {name: ranges.get(name) for name in SERVED} == SERVED
    if isinstance(broker, SiltstoneProcess):
        assert ranges.keys() == SERVED.keys()


def test_nobody_has_a_quota_or_credentials(broker: Broker, kafka_tools: KafkaTools) -> None:
    """kafka-configs finds nothing to describe of users, clients and addresses."""
    at = ("--bootstrap-server", broker.bootstrap)
    said = [
        kafka_tools.run(CONFIGS, *at, "--describe", "--entity-type", kind)
        for kind in ("users", "clients", "ips")
    ]
    said.append(
        kafka_tools.run(CONFIGS, *at, "--describe", "--entity-type", "users", "--entity-name", "u")
    )

    assert "".join(said).strip() == ""


@pytest.mark.parametrize(
    ("entity", "quotas", "described"),
    [
        (
            ("--entity-type", "users", "--entity-name", "alice"),
            "producer_byte_rate=1048576,request_percentage=12.5",
            (
                "Quota configs for user-principal 'alice' are "
                "producer_byte_rate=1048576.0, request_percentage=12.5"
            ),
        ),
        (
            ("--entity-type", "clients", "--entity-default"),
            "consumer_byte_rate=1024",
            "Quota configs for the default client-id are consumer_byte_rate=1024.0",
        ),
        (
            (
                "--entity-type",
                "users",
                "--entity-name",
                "bob",
                "--entity-type",
                "clients",
                "--entity-name",
                "app",
            ),
            "controller_mutation_rate=3",
            (
                "Quota configs for user-principal 'bob', client-id 'app' are "
                "controller_mutation_rate=3.0"
            ),
        ),
        (
            ("--entity-type", "ips", "--entity-name", "192.0.2.1"),
            "connection_creation_rate=7",
            "Quota configs for ip '192.0.2.1' are connection_creation_rate=7.0",
        ),
    ],
    ids=["user", "default client", "both", "address"],
)
def test_configs_tool_sets_describes_and_removes_quotas(
    broker: Broker, kafka_tools: KafkaTools, entity: tuple[str, ...], quotas: str, described: str
) -> None:
    """kafka-configs does for users, clients, both and addresses."""
    at = ("--bootstrap-server", broker.bootstrap, *entity)
    names = ",".join(each.partition("=")[0] for each in quotas.split(","))

    kafka_tools.run(CONFIGS, "--alter", *at, "--add-config", quotas)
    said = kafka_tools.run(CONFIGS, "--describe", *at)
    kafka_tools.run(CONFIGS, "--alter", *at, "--delete-config", names)

    assert sorted(re.split(r", | are ", said.splitlines()[0])) == sorted(
        re.split(r", | are ", described)
    )
    assert kafka_tools.run(CONFIGS, "--describe", *at).strip() == ""


def test_there_is_no_authorizer_to_ask_for_acls(broker: Broker, kafka_tools: KafkaTools) -> None:
    """kafka-acls says so."""
    done = kafka_tools.try_run("AclCommand", "--bootstrap-server", broker.bootstrap, "--list")

    assert "No Authorizer is configured on the broker" in done.stdout + done.stderr
    assert "UnsupportedVersion" not in done.stdout + done.stderr
