"""The table of APIs, with the versions that Apache Kafka 4.4.0 serves.

Dispatch, the ApiVersions answer, metric labels and ``docs/compatibility.md`` are derived from it. A
handler is named by module and function in ``broker.handlers`` and imported when it is first called:
importing all handlers at once would hold up the start.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

from siltstone.protocol.messages import MAX_ELEMENTS, Message

_FEW: Final = 1_000
"""For requests that name features, states, or the one partition of the quorum: dozens at most."""

_CHANGES: Final = 10_000
"""For requests that change topics, settings, users or rights: a few elements for each topic."""

_OF_ONE_MEMBER: Final = 12_000
"""For the offsets that one member of a group commits in a transaction: 6,000 topics at most."""

_PRODUCED: Final = 20_500
"""For 10,000 partitions with a batch each: a first look goes over all of the request at once."""

_OF_BROKERS: Final = 2_000
"""For requests that only brokers send; this broker is the only one of its cluster."""

_USERS: Final = 2_000
"""For users that are named one by one; a request that names no user means all of them."""

_MEMBERS: Final = 10_000
"""For members that an administrator removes from one group: hundreds at most."""

_SUBSCRIPTION: Final = 35_000
"""For a member that subscribes to 10,000 topics, and lists its one partition of each topic."""


@dataclass(frozen=True, slots=True)
class Api:
    """One row: Kafka's key and name, the versions served, and the handler that serves them.

    ``advertised_from`` is the lowest version that ApiVersions names, if that is below the lowest
    served version: librdkafka does not compress for a broker that does not name Produce 0, so
    Apache Kafka names version 0 and refuses it (apache/kafka#18727).

    ``max_elements`` is how many elements a request may have. An API has a lower limit than others
    where no client needs as many, or where each element costs much.

    ``is_preloaded`` is true for the APIs that clients use. The handler of an API that only
    administrators use is imported by its first request, so most brokers never load it.
    """

    key: int
    name: str
    versions: range
    handler: str
    advertised_from: int | None = None
    max_elements: int = MAX_ELEMENTS
    is_preloaded: bool = True

    @property
    def advertised(self) -> tuple[int, int]:
        """Return the lowest and highest version that ApiVersions names."""
        lowest = self.versions[0] if self.advertised_from is None else self.advertised_from
        return lowest, self.versions[-1]

    def load(self) -> Callable[..., Any]:
        """Import and return the handler."""
        module, function = self.handler.split(".")
        loaded: Callable[..., Any] = getattr(
            import_module(f"siltstone.broker.handlers.{module}"), function
        )
        return loaded

    def load_messages(self) -> tuple[Message, Message]:
        """Import and return the tables of the request and the response."""
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()
        module = import_module(f"siltstone.protocol.messages.{name}")
        return module.REQUEST, module.RESPONSE


_seldom = partial(Api, is_preloaded=False)
"""An API that administrators ask now and then."""

APIS = (
    Api(0, "Produce", range(3, 14), "produce.handle", advertised_from=0, max_elements=_PRODUCED),
    Api(1, "Fetch", range(4, 19), "fetch.handle"),
    Api(2, "ListOffsets", range(1, 12), "list_offsets.handle"),
    Api(3, "Metadata", range(14), "metadata.handle"),
    Api(8, "OffsetCommit", range(2, 11), "offset_commit.handle"),
    Api(9, "OffsetFetch", range(1, 11), "offset_fetch.handle"),
    Api(10, "FindCoordinator", range(7), "coordinators.find"),
    Api(11, "JoinGroup", range(10), "joining.join", max_elements=_FEW),
    Api(12, "Heartbeat", range(5), "membership.heartbeat"),
    Api(13, "LeaveGroup", range(6), "membership.leave", max_elements=_MEMBERS),
    Api(14, "SyncGroup", range(6), "joining.sync"),
    Api(15, "DescribeGroups", range(7), "groups.describe"),
    Api(16, "ListGroups", range(6), "groups.list_all", max_elements=_FEW),
    _seldom(17, "SaslHandshake", range(2), "sasl.handshake"),
    Api(18, "ApiVersions", range(6), "api_versions.handle"),
    Api(19, "CreateTopics", range(2, 8), "create_topics.handle", max_elements=_CHANGES),
    Api(20, "DeleteTopics", range(1, 7), "delete_topics.handle", max_elements=_CHANGES),
    _seldom(21, "DeleteRecords", range(3), "records.delete"),
    Api(22, "InitProducerId", range(6), "producers.init_producer_id"),
    Api(23, "OffsetForLeaderEpoch", range(2, 5), "leader_epochs.handle"),
    Api(24, "AddPartitionsToTxn", range(6), "transactions.add_partitions"),
    Api(25, "AddOffsetsToTxn", range(5), "txn_offsets.add_offsets"),
    Api(26, "EndTxn", range(6), "end_txn.handle"),
    _seldom(27, "WriteTxnMarkers", range(1, 3), "txn_markers.write", max_elements=_OF_BROKERS),
    Api(28, "TxnOffsetCommit", range(7), "txn_offsets.commit", max_elements=_OF_ONE_MEMBER),
    _seldom(29, "DescribeAcls", range(1, 4), "acls.describe"),
    _seldom(30, "CreateAcls", range(1, 4), "acls.create", max_elements=_CHANGES),
    _seldom(31, "DeleteAcls", range(1, 4), "acls.delete", max_elements=_CHANGES),
    Api(32, "DescribeConfigs", range(1, 5), "describe_configs.describe"),
    _seldom(33, "AlterConfigs", range(3), "alter_configs.alter", max_elements=_CHANGES),
    _seldom(34, "AlterReplicaLogDirs", range(1, 3), "log_dir_moves.alter"),
    _seldom(35, "DescribeLogDirs", range(1, 6), "log_dirs.describe"),
    _seldom(36, "SaslAuthenticate", range(3), "sasl.authenticate"),
    _seldom(37, "CreatePartitions", range(4), "create_partitions.handle", max_elements=_CHANGES),
    _seldom(42, "DeleteGroups", range(4), "groups.delete"),
    _seldom(43, "ElectLeaders", range(3), "elections.elect_leaders"),
    _seldom(
        44,
        "IncrementalAlterConfigs",
        range(2),
        "alter_configs.alter_incrementally",
        max_elements=_CHANGES,
    ),
    _seldom(45, "AlterPartitionReassignments", range(2), "elections.alter_reassignments"),
    _seldom(46, "ListPartitionReassignments", range(1), "elections.list_reassignments"),
    _seldom(47, "OffsetDelete", range(1), "offset_delete.delete"),
    _seldom(48, "DescribeClientQuotas", range(2), "client_quotas.describe", max_elements=_CHANGES),
    _seldom(49, "AlterClientQuotas", range(2), "client_quotas.alter", max_elements=_CHANGES),
    _seldom(
        50, "DescribeUserScramCredentials", range(1), "scram_users.describe", max_elements=_USERS
    ),
    _seldom(51, "AlterUserScramCredentials", range(1), "scram_users.alter", max_elements=_USERS),
    _seldom(55, "DescribeQuorum", range(3), "quorum.describe", max_elements=_FEW),
    _seldom(57, "UpdateFeatures", range(3), "features.update", max_elements=_FEW),
    Api(60, "DescribeCluster", range(3), "cluster.describe"),
    _seldom(61, "DescribeProducers", range(1), "describe_producers.describe"),
    _seldom(64, "UnregisterBroker", range(1), "unregistration.unregister_broker"),
    _seldom(65, "DescribeTransactions", range(1), "describe_transactions.describe"),
    _seldom(66, "ListTransactions", range(3), "describe_transactions.list_all"),
    Api(
        68,
        "ConsumerGroupHeartbeat",
        range(2),
        "consumer_heartbeat.handle",
        max_elements=_SUBSCRIPTION,
    ),
    Api(69, "ConsumerGroupDescribe", range(2), "consumer_groups.describe"),
    Api(71, "GetTelemetrySubscriptions", range(1), "telemetry.subscribe", max_elements=_FEW),
    Api(72, "PushTelemetry", range(1), "telemetry.push", max_elements=_FEW),
    _seldom(
        74, "ListConfigResources", range(2), "describe_configs.list_resources", max_elements=_FEW
    ),
    Api(75, "DescribeTopicPartitions", range(1), "topic_partitions.describe"),
    Api(76, "ShareGroupHeartbeat", range(1, 2), "share_heartbeat.handle", max_elements=_CHANGES),
    Api(77, "ShareGroupDescribe", range(1, 2), "share_groups.describe"),
    Api(78, "ShareFetch", range(1, 3), "share_fetch.handle"),
    Api(79, "ShareAcknowledge", range(1, 3), "share_acknowledge.handle"),
    _seldom(
        83,
        "InitializeShareGroupState",
        range(1),
        "share_state.initialize",
        max_elements=_OF_BROKERS,
    ),
    _seldom(84, "ReadShareGroupState", range(1), "share_state.read", max_elements=_OF_BROKERS),
    _seldom(85, "WriteShareGroupState", range(2), "share_state.write", max_elements=_OF_BROKERS),
    _seldom(86, "DeleteShareGroupState", range(1), "share_state.delete", max_elements=_OF_BROKERS),
    _seldom(
        87,
        "ReadShareGroupStateSummary",
        range(2),
        "share_state.summarize",
        max_elements=_OF_BROKERS,
    ),
    Api(
        88,
        "StreamsGroupHeartbeat",
        range(2),
        "streams_heartbeat.handle",
        max_elements=_CHANGES,
        is_preloaded=False,
    ),
    _seldom(89, "StreamsGroupDescribe", range(2), "streams_groups.describe"),
    _seldom(
        90,
        "DescribeShareGroupOffsets",
        range(2),
        "share_offsets.describe",
        max_elements=_CHANGES,
    ),
    _seldom(91, "AlterShareGroupOffsets", range(1), "share_offsets.alter", max_elements=_CHANGES),
    _seldom(92, "DeleteShareGroupOffsets", range(1), "share_offsets.delete", max_elements=_CHANGES),
    _seldom(
        93,
        "StreamsGroupTopologyDescriptionUpdate",
        range(1),
        "topology_descriptions.update",
    ),
    _seldom(94, "UnregisterController", range(1), "unregistration.unregister_controller"),
)

BY_KEY = {api.key: api for api in APIS}
