"""Requests that are seldom or wrong are answered as Apache Kafka answers them, code for code.

Each step is asked in every version that it names, of our broker and of Kafka's, both empty at
first; the answers are compared field by field but for what `Reading` leaves out.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from siltstone.broker.api import APIS
from siltstone.protocol.core.constants import ATTRIBUTES_POSITION, CRC_POSITION, TRANSACTIONAL
from siltstone.protocol.messages import NO_ID
from tests.support.batches import make_batch
from tests.support.kafka import KafkaJars
from tests.support.rows import Asker
from tests.support.side_by_side import Reading, both, compare
from tests.support.waiting import equals, wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}
VERSIONS: Final = {api.name: api.versions for api in APIS}
TOPICS: Final = {"a": 1, "b": 3}
SECONDS: Final = 5
READS: Final = ("Describe", "List", "Find", "Fetch", "Offset", "Metadata")
MISSING: Final = "missing"
KEY: Final = b"\7" * 16


class Step(NamedTuple):
    """A request, and its versions; without them in the newest."""

    api: str
    values: Any
    versions: tuple[int, ...] = ()


def test_odd_requests_are_answered_as_kafka_does(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Kafka's brokers learn of a change a moment after it is answered, so readers ask again."""
    differences = []
    count = 0
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs),
        Asker(ours.bootstrap) as our_asker,
        Asker(theirs.bootstrap) as their_asker,
    ):
        mine, other = Ids(our_asker), Ids(their_asker)
        for step, same in zip(steps(mine), steps(other), strict=True):
            for version in step.versions or VERSIONS[step.api][-1:]:
                told = mine.ask(step, version)
                also_told = other.ask(same, version, told)
                what = f"{step.api} v{version} {step.values!r:.300}"
                differences += [f"{what}: {each}" for each in compare(told, also_told)]
                count += 1

    assert count > 3_000
    assert not differences, "\n".join(differences)


class Ids:
    """A broker, and the values that it drew: topics by their ids, producers by their numbers."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.reading = Reading()
        self.topics: dict[str, bytes] = {}
        self.producers: dict[str | None, tuple[int, int]] = {}
        for name, partitions in TOPICS.items():
            self.topics[name] = self._make_topic(name, partitions)
        for key_type in (0, 1):
            self._wait_for_coordinator(key_type)
        self._make_producer(None)  # the first number is 0, which many answers have
        for transactional_id in (None, "t"):
            self.producers[transactional_id] = self._make_producer(transactional_id)
        for key in (*self.topics.values(), KEY):
            self.reading.read(key, "topic_id")
        for producer, _ in self.producers.values():
            self.reading.read(producer, "producer_id")

    def ask(self, step: Step, version: int, other: Any = None) -> Any:
        """Return the answer, the last of some seconds where it is to become another's."""

        def look() -> Any:
            return self.reading.read(self.asker.ask(step.api, version, step.values))

        if other is not None and step.api.startswith(READS):
            with suppress(TimeoutError):
                return wait_until(look, "the other's answer", equals(other), timeout=SECONDS)
        return look()

    def _make_topic(self, name: str, partitions: int) -> bytes:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        self.asker.ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 9_000})
        ends = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        asked = {"replica_id": -1, "topics": [{"name": name, "partitions": ends}]}
        wait_until(
            lambda: self.asker.ask("ListOffsets", 7, asked)["topics"][0]["partitions"],
            f"{partitions} partitions of {name}",
            lambda rows: not any(row["error_code"] for row in rows),
        )
        told = self.asker.ask("Metadata", 12, {"topics": [{"name": name}]})
        key: bytes = told["topics"][0]["topic_id"]
        return key

    def _wait_for_coordinator(self, key_type: int) -> None:
        keys = {"key_type": key_type, "coordinator_keys": ["x"]}
        self._wait(lambda: self.asker.ask("FindCoordinator", 6, keys)["coordinators"][0])

    def _make_producer(self, name: str | None) -> tuple[int, int]:
        asked = {"transactional_id": name, "transaction_timeout_ms": 600_000}
        told = self._wait(lambda: self.asker.ask("InitProducerId", 5, asked))
        return told["producer_id"], told["producer_epoch"]

    @staticmethod
    def _wait(look: Callable[[], Any]) -> Any:
        return wait_until(look, "no error", lambda row: not row["error_code"])


def steps(ids: Ids) -> Iterator[Step]:
    """Yield all steps; those that change nothing come first."""
    yield from of_misled_clients(ids)
    for node in (7, 0, -1):
        yield Step("UnregisterBroker", {"broker_id": node})
    for node in (7, 0, -1, 1):
        yield Step("UnregisterController", {"controller_id": node})
    yield from of_topics(ids)
    yield from of_settings()
    yield from of_administration()
    yield from of_quotas()
    yield from of_users_and_features()
    yield from of_batches(ids)
    yield from of_large_records()
    yield from of_positions(ids)
    yield from of_transactions(ids)


def every(api: str, first: int = 0) -> tuple[int, ...]:
    """Return the versions of an API from one on."""
    return tuple(version for version in VERSIONS[api] if version >= first)


def of_misled_clients(ids: Ids) -> Iterator[Step]:
    """Clients that mean another broker, or say but half of which one they mean."""
    own = ids.asker.ask("DescribeCluster", 1, {})["cluster_id"]
    for cluster, node in (
        *(("x", 1), ("", 1), ("x", 2), (own, 2), ("x", -1), (own, -1), (own, -5)),
        *((None, 1), (None, 0), (None, -5)),
    ):
        software = {"client_software_name": "a", "client_software_version": "1"}
        meant = {"cluster_id": cluster, "node_id": node}
        yield Step("ApiVersions", software | meant)
        yield Step("ApiVersions", {"client_software_name": " "} | meant)


def of_topics(ids: Ids) -> Iterator[Step]:
    """Names, counts and replicas that cannot be; pages from a cursor; ids of nothing."""
    made: list[tuple[str, int, int, list[list[int]]]] = [
        ("", 1, 1, []), (".", 1, 1, []), ("x/y", 1, 1, []), ("x" * 249, 1, 1, []),
        ("x" * 250, 1, 1, []), ("é", 1, 1, []), ("a", 1, 1, []), ("n", 0, 1, []), ("n", -2, 1, []),
        ("n", 1, 0, []), ("n", 1, 2, []), ("n", 1, -2, []), ("n", -1, -1, []), ("n", 2, -1, [[1]]),
        ("n", -1, 1, [[1]]), ("n", -1, -1, [[1], [1]]), ("n", -1, -1, [[7]]), ("n", -1, -1, [[]]),
        ("n", -1, -1, [[1, 1]]), ("n", -1, -1, [[1], [1, 2]]),
    ]  # fmt: skip
    rows: Any
    for name, count, factor, brokers in made:
        rows = [{"partition_index": i, "broker_ids": each} for i, each in enumerate(brokers)]
        topic = {"name": name, "num_partitions": count, "replication_factor": factor}
        asked = {"topics": [topic | {"assignments": rows}], "validate_only": True}
        yield Step("CreateTopics", asked, every("CreateTopics"))
    grown: list[tuple[str, int, list[list[int]] | None]] = [
        ("b", 3, None), ("b", 2, None), ("b", 0, None), (MISSING, 3, None), ("", 3, None),
        ("b", 5, [[1]]), ("b", 4, [[1], [1]]), ("b", 4, [[5]]), ("b", 4, [[1, 1]]), ("b", 4, [[]]),
        ("b", 4, []), ("b", 4, None),
    ]  # fmt: skip
    for name, count, replicas in grown:
        rows = None if replicas is None else [{"broker_ids": each} for each in replicas]
        more = {"name": name, "count": count, "assignments": rows}
        asked = {"topics": [more], "timeout_ms": 9_000, "validate_only": True}
        yield Step("CreatePartitions", asked, every("CreatePartitions"))
    gone: list[list[tuple[str | None, bytes]]] = [
        [(MISSING, NO_ID)], [("a b", NO_ID)], [("a", NO_ID), ("a", NO_ID)], [(None, KEY)],
        [(None, NO_ID)], [("a", ids.topics["a"])], [("a", NO_ID), (None, ids.topics["a"])],
    ]  # fmt: skip
    for topics in gone:
        rows = [{"name": each, "topic_id": key} for each, key in topics]
        yield Step("DeleteTopics", {"topics": rows, "timeout_ms": 9_000})
    for names, limit, cursor in [
        (["b", "a"], 2000, None), (["b", "a"], 1, None), (["b", "a"], 0, None),
        (["b", "a"], 3, ("b", 1)), (["a", "b"], 3, ("b", 9)), (["a"], 3, ("a", -1)),
        (["a b", MISSING], 3, None), (["a"], 3, ("c", 0)), (["b", "b"], 9, None),
        (["a", "aa", "b"], 1, None), (["a", "aa", "b"], 1, ("aa", 0)),
    ]:  # fmt: skip
        at = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
        rows = [{"name": name} for name in names]
        asked = {"topics": rows, "response_partition_limit": limit, "cursor": at}
        yield Step("DescribeTopicPartitions", asked)
    for name in ("a", MISSING, "a b", ""):
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        asked["include_topic_authorized_operations"] = True
        yield Step("Metadata", asked, every("Metadata", 4))
    for key in (ids.topics["a"], KEY):
        yield Step("Metadata", {"topics": [{"name": None, "topic_id": key}]}, (12, 13))


VALUES: Final = (
    "", "x", "0", "1", "-1", "-2", " 5 ", "1.5", "0.5", "1.1", "9223372036854775808", "2147483648",
    "true", "TRUE", "yes", "delete", "compact", "delete,compact", "delete, compact", ",", "a,,b",
    "gzip", "GZIP", "zstd", "producer", "uncompressed", "*", "1:1", "0:1,1:2", "0:x", "CreateTime",
    "LogAppendTime", "100", "1048576", "45000", None,
)  # fmt: skip
TOPIC_SETTINGS: Final = (
    "cleanup.policy", "compression.type", "compression.gzip.level", "compression.lz4.level",
    "compression.zstd.level", "delete.retention.ms", "file.delete.delay.ms", "flush.messages",
    "flush.ms", "index.interval.bytes", "leader.replication.throttled.replicas",
    "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
    "message.timestamp.after.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "retention.bytes",
    "retention.ms", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable", "no.such",
)  # fmt: skip
BROKER_SETTINGS: Final = (
    "log.retention.ms", "log.cleaner.threads", "log.cleaner.backoff.ms", "message.max.bytes",
    "max.connections", "max.connections.per.ip", "min.insync.replicas", "compression.type",
    "log.message.timestamp.type", "node.id", "log.retention.hours",
)  # fmt: skip
GROUP_SETTINGS: Final = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "no.such")
METRICS_SETTINGS: Final = ("interval.ms", "metrics", "match", "no.such")
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def of_settings() -> Iterator[Step]:
    """Each kind of value for each setting, each operation, and resources that do not exist."""
    for kind, name, settings in [
        (TOPIC, "a", TOPIC_SETTINGS), (BROKER, "1", BROKER_SETTINGS),
        (GROUP, "g", GROUP_SETTINGS), (METRICS, "m", METRICS_SETTINGS),
    ]:  # fmt: skip
        for setting in settings:
            for value in VALUES:
                yield _alter(kind, name, setting, 0, value)
    for value in ("client_id=", "client_id=a=b", "client_id=(", "client_id=a,client_id=b", "x=y"):
        yield _alter(METRICS, "m", "match", 0, value)
    for kind, name, setting in [
        (TOPIC, "a", "retention.ms"), (TOPIC, "a", "cleanup.policy"), (TOPIC, MISSING, "no.such"),
        (TOPIC, MISSING, "retention.ms"), (TOPIC, "a b", "retention.ms"),
        (TOPIC, "", "retention.ms"),
        (BROKER, "1", "log.cleanup.policy"), (BROKER, "2", "log.retention.ms"),
        (BROKER, "x", "log.retention.ms"), (BROKER, "", "node.id"), (LOGGER, "1", "no.such"),
        (LOGGER, "2", "root"), (METRICS, "m", "metrics"), (METRICS, "", "metrics"),
        (GROUP, "", "consumer.session.timeout.ms"), (0, "x", "x"), (3, "x", "x"), (99, "x", "x"),
    ]:  # fmt: skip
        for operation in range(4):
            for value in ("compact", "70000", None):
                yield _alter(kind, name, setting, operation, value)
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [setting]}
        asked = {"resources": [resource], "include_synonyms": True}
        yield Step("DescribeConfigs", asked, every("DescribeConfigs"))


def _alter(kind: int, name: str, setting: str, operation: int, value: str | None) -> Step:
    change = {"name": setting, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
    return Step("IncrementalAlterConfigs", {"resources": [resource], "validate_only": True})


def of_administration() -> Iterator[Step]:
    """Elections, reassignments, moves to other folders."""
    asked: dict[str, Any]
    for kind in (0, 1, 2):
        for topic, index in (("a", 0), ("a", 9), (MISSING, 0)):
            rows = [{"topic": topic, "partitions": [index]}]
            asked = {"election_type": kind, "topic_partitions": rows}
            yield Step("ElectLeaders", asked, every("ElectLeaders"))
    moves: list[tuple[str, int, list[int] | None]] = [
        ("a", 0, [1]), ("a", 0, [1, 2]), ("a", 0, [5]), ("a", 0, []), ("a", 0, None),
        ("a", 0, [1, 1]), ("a", 9, [1]), (MISSING, 0, [1]),
    ]  # fmt: skip
    for topic, index, replicas in moves:
        row = {"partition_index": index, "replicas": replicas}
        topics = [{"name": topic, "partitions": [row]}]
        yield Step("AlterPartitionReassignments", {"topics": topics}, (0, 1))
    for folder, topic, index in (("/nowhere", "a", 0), ("nowhere", "a", 0), ("/nowhere", "a", 9)):
        asked = {"dirs": [{"path": folder, "topics": [{"name": topic, "partitions": [index]}]}]}
        yield Step("AlterReplicaLogDirs", asked, every("AlterReplicaLogDirs"))


def of_quotas() -> Iterator[Step]:
    """Entities, keys and values that cannot be, and filters that contradict themselves."""
    quotas: list[tuple[list[tuple[str, str]], str, float]] = [
        ([("user", "u")], "producer_byte_rate", 5.0), ([], "producer_byte_rate", 5.0),
        ([("user", "")], "producer_byte_rate", 5.0), ([("x", "u")], "producer_byte_rate", 5.0),
        ([("user", "u")], "x", 5.0), ([("user", "u")], "producer_byte_rate", 0.0),
        ([("user", "u")], "producer_byte_rate", 1.5), ([("user", "u")], "request_percentage", 1.5),
        ([("user", "u")], "producer_byte_rate", 1e19),
        ([("ip", "::1")], "producer_byte_rate", 5.0),
        ([("ip", "::1")], "connection_creation_rate", 5.0),
        ([("ip", "no such")], "connection_creation_rate", 5.0),
        ([("ip", "::1"), ("user", "u")], "connection_creation_rate", 5.0),
    ]  # fmt: skip
    for entity, key, value in quotas:
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        entry = {"entity": parts, "ops": [{"key": key, "value": value}]}
        for entries in ([entry], [entry, entry]):
            asked = {"entries": entries, "validate_only": True}
            yield Step("AlterClientQuotas", asked, every("AlterClientQuotas"))
    for kind, how, match in [
        ("user", 0, "u"), ("user", 0, None), ("user", 1, None), ("user", 1, "u"), ("user", 2, None),
        ("user", 3, None), ("x", 2, None), ("", 2, None),
    ]:  # fmt: skip
        part = {"entity_type": kind, "match_type": how, "match": match}
        yield Step("DescribeClientQuotas", {"components": [part]}, (0, 1))
        yield Step("DescribeClientQuotas", {"components": [part, part]}, (0, 1))


def of_users_and_features() -> Iterator[Step]:
    """Mechanisms, iterations and levels that cannot be."""
    for name, mechanism, iterations in [
        ("u", 1, 4095), ("u", 1, 16385), ("u", 0, 4096), ("u", 9, 4096), ("", 1, 4096),
    ]:  # fmt: skip
        user = {"name": name, "mechanism": mechanism}
        secret = {"salt": b"salt", "salted_password": bytes(32), "iterations": iterations}
        yield Step("AlterUserScramCredentials", {"upsertions": [user | secret]})
        yield Step("AlterUserScramCredentials", {"deletions": [user]})
        yield Step("DescribeUserScramCredentials", {"users": [{"name": name}]})
    for feature, level, kind in [
        ("x", 1, 1), ("transaction.version", 9, 1), ("transaction.version", 1, 1),
        ("transaction.version", 1, 2), ("transaction.version", -1, 1), ("group.version", 0, 2),
        ("transaction.version", 1, 7), ("", 1, 1),
    ]:  # fmt: skip
        update = {"feature": feature, "max_version_level": level}
        asked = {"feature_updates": [update | {"upgrade_type": kind}], "validate_only": True}
        yield Step("UpdateFeatures", asked, (1, 2))
        asked = {"feature_updates": [update | {"allow_downgrade": True}]}
        if level != 1 or feature != "group.version":
            yield Step("UpdateFeatures", asked, (0,))


def of_batches(ids: Ids) -> Iterator[Step]:
    """Batches with one field that is wrong, acks that do not exist, sequences out of order."""
    fine = bytes(make_batch(2))
    spoilt = {
        "fine": fine,
        "empty": b"",
        "cut": fine[:-1],
        "trailing": fine + b"x",
        "twice": fine + fine,
        "crc": fine[:CRC_POSITION] + b"\0\0\0\1" + fine[CRC_POSITION + 4 :],
        "magic": fine[:16] + b"\1" + fine[17:],
        "size": fine[:8] + b"\0\0\0\1" + fine[12:],
        "control": bytes(make_batch(1, flags=0x20)),
        "count": bytes(make_batch(2, last_offset_delta=4)),
        "transactional": bytes(make_batch(1, flags=TRANSACTIONAL)),
        "gzip": bytes(make_batch(2, codec=1)),
        "no time": bytes(make_batch(1, timestamp=-1)),
    }
    for records in spoilt.values():
        yield _produce("a", 0, records, versions=(3, 7, 8, 12))
    for topic, index in (("a", 9), (MISSING, 0)):
        yield _produce(topic, index, fine, versions=(3, 7, 8, 12))
    for acks in (2, -2, 100):
        yield _produce("a", 0, fine, acks=acks, versions=(3, 12))
    producer, _ = ids.producers[None]
    for epoch, sequence in [
        (0, 0), (0, 2), (0, 2), (0, 0), (0, 9), (1, 5), (1, 0), (0, 4), (1, -1), (-1, 2),
    ]:  # fmt: skip
        assert fine[ATTRIBUTES_POSITION] == 0
        batch = make_batch(2, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        yield _produce("b", 0, bytes(batch))


def of_large_records() -> Iterator[Step]:
    """Records of compressed batches that are larger, opened, than the topic allows.

    The look-ups wait until Kafka's broker knows the setting.
    """
    yield _produce("b", 2, bytes(make_batch([(b"k", b"v" * 2_000)], codec=1)))
    for operation in (0, 1):
        setting = {"name": "max.decompressed.message.bytes", "value": "1008"}
        configs = [setting | {"config_operation": operation}]
        resource = {"resource_type": 2, "resource_name": "b", "configs": configs}
        yield Step("IncrementalAlterConfigs", {"resources": [resource]})
        for stamp in (-3, 0, 1_700_000_000_000, 1 << 60):
            row = {"partition_index": 2, "timestamp": stamp}
            asked = {"replica_id": -1, "topics": [{"name": "b", "partitions": [row]}]}
            yield Step("ListOffsets", asked, (7, 11))
        for codec in range(5):
            for size in (1_000, 1_001):
                batch = make_batch([(b"k", b"v"), (b"k", b"v" * size)], codec=codec)
                yield _produce("b", 2, bytes(batch))


def _produce(
    topic: str, index: int, records: bytes, *, acks: int = -1, versions: tuple[int, ...] = (12,)
) -> Step:
    partitions = [{"index": index, "records": records}]
    topics = [{"name": topic, "partition_data": partitions}]
    return Step("Produce", {"acks": acks, "timeout_ms": 9_000, "topic_data": topics}, versions)


def of_positions(ids: Ids) -> Iterator[Step]:
    """Offsets, epochs and times in and out of bounds."""
    for topic in ("b", MISSING):
        for index in (0, 9):
            for stamp in (-1, -2, -3, -4, -5, -6, -7, 0, 1_700_000_000_001, 1 << 60):
                row = {"partition_index": index, "timestamp": stamp}
                asked = {"replica_id": -1, "topics": [{"name": topic, "partitions": [row]}]}
                yield Step("ListOffsets", asked, every("ListOffsets"))
    for epoch in (-1, 0, 1, -2):
        row = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
        asked = {"replica_id": -1, "topics": [{"name": "b", "partitions": [row]}]}
        yield Step("ListOffsets", asked, (4, 11))
        for offset in (0, 1, 3, 6, 7, -1):
            row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            wanted = {"topic": "b", "topic_id": ids.topics["b"], "partitions": [row]}
            row["current_leader_epoch"] = epoch
            yield Step("Fetch", {"topics": [wanted]}, (4, 9, 12, 13, 18))
    for key in (KEY, NO_ID):
        wanted = {"topic_id": key, "partitions": [{"partition": 0, "partition_max_bytes": 100}]}
        yield Step("Fetch", {"topics": [wanted]}, (13, 18))
    for session, epoch in ((0, 5), (5, 1), (-5, 1), (5, -1)):
        yield Step("Fetch", {"session_id": session, "session_epoch": epoch}, (7, 12, 18))
    for topic, offset in (("b", -2), ("b", 1_000), (MISSING, 0), ("b", 1), ("b", 0), ("b", -1)):
        rows = [{"partition_index": 0, "offset": offset}]
        asked = {"topics": [{"name": topic, "partitions": rows}], "timeout_ms": 9_000}
        yield Step("DeleteRecords", asked, every("DeleteRecords"))


def of_transactions(ids: Ids) -> Iterator[Step]:
    """Producers, epochs and states that do not fit; markers of nobody."""
    producer, epoch = ids.producers["t"]
    for name, known, at in [
        ("", -1, -1), ("t", 4_000, 0), ("t", producer, epoch + 5), ("t", -1, 3),
        (None, producer, 0),
    ]:  # fmt: skip
        asked = {"transactional_id": name, "transaction_timeout_ms": 60_000}
        yield Step("InitProducerId", asked | {"producer_id": known, "producer_epoch": at}, (4,))
    for timeout in (0, -1, 1 << 30):
        asked = {"transactional_id": "t", "transaction_timeout_ms": timeout}
        yield Step("InitProducerId", asked, (0, 4))
    who: dict[str, Any]
    for name, known, at in [
        ("x", producer, epoch), ("", producer, epoch), ("t", 4_000, epoch),
        ("t", producer, epoch + 1), ("t", producer, epoch - 1),
    ]:  # fmt: skip
        who = {"transactional_id": name, "producer_id": known, "producer_epoch": at}
        yield Step("EndTxn", who | {"committed": True}, every("EndTxn"))
        yield Step("AddOffsetsToTxn", who | {"group_id": "g"}, every("AddOffsetsToTxn"))
        old = {f"v3_and_below_{key}": value for key, value in who.items()}
        topics = [{"name": "b", "partitions": [0]}]
        yield Step("AddPartitionsToTxn", old | {"v3_and_below_topics": topics}, (0, 2, 3))
        rows = [{"partition_index": 0, "committed_offset": 5}]
        commit = {"group_id": "g", "topics": [{"name": "b", "partitions": rows}]}
        yield Step("TxnOffsetCommit", who | commit, (0, 3))
    yield from of_commits(ids)
    yield Step("DescribeTransactions", {"transactional_ids": ["t", "x", ""]})
    for states in ([], ["Empty"], ["empty"], ["Ongoing", "Nope"]):
        yield Step("ListTransactions", {"state_filters": states}, (0, 1, 2))
    for pattern in ("t", "t.*", "", "(", "x"):
        yield Step("ListTransactions", {"transactional_id_pattern": pattern})
    for known, at, coordinator in ((producer, epoch, 0), (producer, epoch, -1), (4_000, 0, -1)):
        for index in (1, 9):
            marker = {"producer_id": known, "producer_epoch": at, "coordinator_epoch": coordinator}
            topics = [{"name": "b", "partition_indexes": [index]}]
            yield Step("WriteTxnMarkers", {"markers": [marker | {"topics": topics}]}, (1, 2))
    yield Step("DescribeProducers", {"topics": [{"name": "b", "partition_indexes": [0, 1, 9]}]})


def of_commits(ids: Ids) -> Iterator[Step]:
    """Offsets of topics and members that do not exist, in the transaction of a producer."""
    producer, epoch = ids.producers["t"]
    who = {"transactional_id": "t", "producer_id": producer, "producer_epoch": epoch}
    for topic, metadata in ((MISSING, ""), ("b", "m" * 5_000)):
        told = {"partition_index": 0, "committed_metadata": metadata}
        commit = {"group_id": "g", "topics": [{"name": topic, "partitions": [told]}]}
        yield Step("TxnOffsetCommit", who | commit, (0, 3, 4))
        if topic == MISSING:
            yield Step("TxnOffsetCommit", who | commit, (5,))
    rows = [{"partition_index": index, "committed_offset": 5} for index in (0, 9)]
    for key in (ids.topics["b"], KEY, NO_ID):
        by_both = {"name": "b", "topic_id": key, "partitions": rows}
        for group, member, generation in (("g", "", -1), ("h", "m", 3), ("g", "m", 0)):
            member_of = {"member_id": member, "generation_id_or_member_epoch": generation}
            by_id = {"group_id": group, "topics": [by_both]}
            yield Step("TxnOffsetCommit", who | by_id | member_of, (5, 6))
