"""Questions to a Kafka cluster: its topics, their leaders and offsets."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from siltstone.pipeline.client.wire import Exchange, Wire, split_addresses
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.protocol.errors import ErrorCode, error_name
from siltstone.protocol.messages import (
    NO_ID,
    describe_configs,
    describe_log_dirs,
    list_offsets,
    metadata,
)
from siltstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from siltstone.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from siltstone.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.protocol.names import uuid_text
from siltstone.storage.topic_partition import TopicPartition

_METADATA: Final = Exchange(metadata.REQUEST, metadata.RESPONSE, 12)
_LIST_OFFSETS: Final = Exchange(list_offsets.REQUEST, list_offsets.RESPONSE, 6)
_DESCRIBE_CONFIGS: Final = Exchange(describe_configs.REQUEST, describe_configs.RESPONSE, 4)
_DESCRIBE_LOG_DIRS: Final = Exchange(describe_log_dirs.REQUEST, describe_log_dirs.RESPONSE, 2)
_TOPIC: Final = 2
_UNCOMMITTED: Final = 0
_COMMITTED: Final = 1


class Leader(NamedTuple):
    """The leader of a partition, and the id of its topic."""

    node: int
    topic_id: str


class Cluster:
    """Connections to the brokers of one cluster, made as they are needed. One thread."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        """Connect to the first address that answers.

        Raises:
            SourceUnavailable: no address does.
        """
        self._settings = settings
        self._first = self._connect_to_any(split_addresses(bootstrap))
        self._nodes: dict[int, tuple[str, int]] = {}
        self._wires: dict[int, Wire] = {}
        self.cluster_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        for wire in (self._first, *self._wires.values()):
            wire.close()

    def leaders(self, topics: list[str] | None) -> dict[TopicPartition, Leader]:
        """Return the leader of each partition of some topics, or all, without unknown topics."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = self._first.ask(_METADATA, request)
        self.cluster_id = answer.cluster_id or ""
        self._nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.topic_authorization_failed:
                raise SourceUnavailable(f"the broker does not let this user read {topic.name}")
            if topic.name is None or topic.error_code == ErrorCode.unknown_topic_or_partition:
                continue
            if topic.error_code:
                fault = error_name(topic.error_code)
                raise SourceUnavailable(
                    f"the broker does not say where {topic.name} is: {fault}; try again later"
                )
            topic_id = uuid_text(UUID(bytes=topic.topic_id)) if topic.topic_id != NO_ID else ""
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                found[key] = Leader(each.leader_id, topic_id)
        return found

    def offsets(
        self,
        leaders: Mapping[TopicPartition, Leader],
        timestamp: int,
        *,
        is_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        """Return offsets by ListOffsets: of a time in ms, -1 for the end, -2 for the start.

        The result is -1 if all records are older.

        Raises:
            SourceUnavailable: a partition has no leader, or refuses.
        """
        by_node: dict[int, list[TopicPartition]] = {}
        for key, leader in leaders.items():
            by_node.setdefault(leader.node, []).append(key)
        found = {}
        for node, keys in by_node.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=_COMMITTED if is_committed else _UNCOMMITTED,
                topics=_by_topic(keys, timestamp),
            )
            answer = self.wire(node).ask(_LIST_OFFSETS, request)
            for topic in answer.topics:
                for each in topic.partitions:
                    key = TopicPartition(topic.name, each.partition_index)
                    if each.error_code:
                        raise SourceUnavailable(
                            f"the broker has no offsets of {key}: {error_name(each.error_code)}"
                        )
                    found[key] = each.offset
        return found

    def configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics, without topics that this user may not see."""
        names = ("cleanup.policy", "delete.retention.ms")
        resources = tuple(
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=topic, configuration_keys=names
            )
            for topic in topics
        )
        request = DescribeConfigsRequest(resources=resources, include_documentation=False)
        answer = self._first.ask(_DESCRIBE_CONFIGS, request)
        return {
            result.resource_name: {each.name: each.value or "" for each in result.configs}
            for result in answer.results
            if not result.error_code
        }

    @property
    def node_count(self) -> int:
        """How many brokers the last Metadata named."""
        return len(self._nodes)

    def log_directories(self) -> list[str]:
        """Return the log directories of the first broker, none if it does not tell."""
        answer = self._first.ask(_DESCRIBE_LOG_DIRS, DescribeLogDirsRequest())
        return [each.log_dir for each in answer.results if not each.error_code]

    def wire(self, node: int) -> Wire:
        """Return the connection to a node.

        Raises:
            SourceUnavailable: it does not answer.
        """
        if node not in self._wires:
            address = self._nodes.get(node)
            if address is None:
                raise SourceUnavailable("a partition has no leader now; try again later")
            self._wires[node] = Wire(address, self._settings)
        return self._wires[node]

    def forget(self, node: int) -> None:
        """Close the connection to a node: another broker may have its place now."""
        wire = self._wires.pop(node, None)
        if wire is not None:
            wire.close()

    def _connect_to_any(self, addresses: list[tuple[str, int]]) -> Wire:
        for address in addresses[:-1]:
            try:
                return Wire(address, self._settings)
            except SourceUnavailable:
                continue
        return Wire(addresses[-1], self._settings)


def _by_topic(keys: list[TopicPartition], timestamp: int) -> Any:
    topics: dict[str, list[Any]] = {}
    for topic, partition in keys:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(asked)
    return tuple(
        ListOffsetsTopic(name=name, partitions=tuple(asked)) for name, asked in topics.items()
    )
