"""Guards of what is asked about the cluster: one right for the whole, or settings one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate.rows import (
    CLUSTER,
    GROUP,
    MESSAGES,
    TOPIC,
    Guard,
    Handler,
    Rows,
    twice,
)
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.broker.topics.settings.resources import ALL_BROKERS, ResourceType, check_broker
from siltstone.protocol.errors import InvalidRequest
from siltstone.protocol.messages import alter_configs, incremental_alter_configs
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from siltstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from siltstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from siltstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from siltstone.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from siltstone.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from siltstone.protocol.messages.describe_acls import DescribeAclsResponse
from siltstone.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from siltstone.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from siltstone.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from siltstone.protocol.messages.describe_quorum import DescribeQuorumResponse
from siltstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from siltstone.protocol.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from siltstone.protocol.messages.list_config_resources import ListConfigResourcesResponse
from siltstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from siltstone.protocol.messages.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights

_MESSAGE: Final = MESSAGES[CLUSTER]
_WHOLE: Final[dict[str, Any]] = {"error_code": CLUSTER, "error_message": _MESSAGE}


def _of_cluster(key: int, refuse: Callable[[Any], Any]) -> Guard:
    """Return the guard of a request that needs one right to the cluster, and is refused whole."""
    (need,) = REQUIREMENTS[key]

    def guard(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
        return handler(context, request) if rights.may(*need[:2]) else refuse(request)

    return guard


describe_acls: Final = _of_cluster(29, lambda _: DescribeAclsResponse(**_WHOLE))
create_acls: Final = _of_cluster(
    30, lambda request: CreateAclsResponse(results=(AclCreationResult(**_WHOLE),) * len(request[0]))
)
delete_acls: Final = _of_cluster(
    31,
    lambda request: DeleteAclsResponse(
        filter_results=(DeleteAclsFilterResult(**_WHOLE),) * len(request[0])
    ),
)
alter_log_dirs: Final = _of_cluster(
    34,
    lambda request: AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic.name,
                [AlterReplicaLogDirPartitionResult(index, CLUSTER) for index in topic.partitions],
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    ),
)
describe_log_dirs: Final = _of_cluster(35, lambda _: DescribeLogDirsResponse(error_code=CLUSTER))
elect_leaders: Final = _of_cluster(
    43,
    lambda request: ElectLeadersResponse(
        error_code=CLUSTER,
        replica_election_results=[
            ReplicaElectionResult(
                row.topic, [PartitionResult(index, CLUSTER, _MESSAGE) for index in row.partitions]
            )
            for row in request.topic_partitions or ()
        ],
    ),
)
alter_reassignments: Final = _of_cluster(
    45,
    lambda request: AlterPartitionReassignmentsResponse(
        **_WHOLE,
        responses=[
            ReassignableTopicResponse(
                row.name,
                [ReassignablePartitionResponse(each[0], **_WHOLE) for each in row.partitions],
            )
            for row in request.topics
        ],
    ),
)
list_reassignments: Final = _of_cluster(
    46,
    lambda request: ListPartitionReassignmentsResponse(
        **_WHOLE,
        topics=[
            OngoingTopicReassignment(
                row.name, [OngoingPartitionReassignment(each) for each in row.partition_indexes]
            )
            for row in request.topics or ()
        ],
    ),
)
describe_quotas: Final = _of_cluster(
    48, lambda _: DescribeClientQuotasResponse(**_WHOLE, entries=None)
)
alter_quotas: Final = _of_cluster(
    49,
    lambda request: AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(**_WHOLE, entity=[ResponseEntityData(*each) for each in row.entity])
            for row in request.entries
        ]
    ),
)
describe_users: Final = _of_cluster(
    50,
    lambda request: DescribeUserScramCredentialsResponse(
        **_WHOLE,
        results=[DescribeUserScramCredentialsResult(**_WHOLE) for _ in request.users or ()],
    ),
)
alter_users: Final = _of_cluster(
    51,
    lambda request: AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, **_WHOLE)
            for name in sorted({each.name for each in (*request.deletions, *request.upsertions)})
        ]
    ),
)
describe_quorum: Final = _of_cluster(55, lambda _: DescribeQuorumResponse(**_WHOLE))
update_features: Final = _of_cluster(57, lambda _: UpdateFeaturesResponse(**_WHOLE))
list_configs: Final = _of_cluster(74, lambda _: ListConfigResourcesResponse(error_code=CLUSTER))


# Settings, each of a resource of its own

_CLUSTER_TYPES = frozenset(
    {ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS}
)
_TYPES = frozenset(ResourceType)


def _of_configs(
    key: int,
    answer: str,
    response: Callable[..., Any],
    row: Callable[..., Any],
    faulty: Callable[[RequestContext, Any], Collection[tuple[int, str]]] | None = None,
) -> Guard:
    """Return the guard of a request that names what has settings.

    What is ``faulty`` of it, the handler refuses whoever asks.
    """
    of_topic, of_group, of_cluster = REQUIREMENTS[key]
    rows = Rows("resources", answer, response)

    def judge(rights: Rights, kind: int, name: str) -> int:
        if kind == ResourceType.TOPIC:
            return 0 if rights.may(*of_topic[:2], name) else TOPIC
        if kind == ResourceType.GROUP:
            return 0 if rights.may(*of_group[:2], name) else GROUP
        if kind not in _CLUSTER_TYPES:
            return 0  # the handler refuses it, whoever asks
        return 0 if rights.may(*of_cluster[:2]) else CLUSTER

    def guard(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
        refused: dict[int, Any] = {}
        left = faulty(context, request.resources) if faulty is not None else ()
        for place, (kind, name, _) in enumerate(request.resources):
            code = 0 if (kind, name) in left else judge(rights, kind, name)
            if code:
                refused[place] = row(code, MESSAGES[code], kind, name)
        return rows.serve(context, request, handler, refused)

    return guard


def _faulty_change(context: RequestContext, resources: Any) -> set[tuple[int, str]]:
    """Return what cannot be changed whoever asks: what is named twice, and other brokers."""
    named = [(kind, name) for kind, name, _ in resources]
    brokers = {each for each in named if each[0] == ResourceType.BROKER and each[1] != ALL_BROKERS}
    return {*twice(named), *(each for each in brokers if _is_other(context, each[1]))}


def _is_other(context: RequestContext, name: str) -> bool:
    try:
        check_broker(name, context.rooms.identity.node_id)
    except InvalidRequest:
        return True
    return False


def _faulty_replacement(context: RequestContext, resources: Any) -> set[tuple[int, str]]:
    """Return the same for AlterConfigs, which changes no levels of loggers."""
    loggers = {(kind, name) for kind, name, _ in resources if kind == ResourceType.BROKER_LOGGER}
    return _faulty_change(context, resources) | loggers


_DESCRIBED: Final = _of_configs(32, "results", DescribeConfigsResponse, DescribeConfigsResult)
alter_configs_whole: Final = _of_configs(
    33,
    "responses",
    alter_configs.AlterConfigsResponse,
    alter_configs.AlterConfigsResourceResponse,
    _faulty_replacement,
)
alter_configs_one_by_one: Final = _of_configs(
    44,
    "responses",
    incremental_alter_configs.IncrementalAlterConfigsResponse,
    incremental_alter_configs.AlterConfigsResourceResponse,
    _faulty_change,
)


def describe_configs(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Describe settings that may be; of an unknown type the handler refuses all that are named."""
    if all(each[0] in _TYPES for each in request.resources):
        return _DESCRIBED(rights, context, request, handler)
    return handler(context, request)
