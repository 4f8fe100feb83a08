"""What old requests meant: the few places where a version differs by more than added fields."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from protocol.request_reader import Lifted, Reader, Reshape, request_reader
from protocol.schemas import EntityClass, request_class

_PREFERRED_ELECTION: Final = 0
_CLIENT_METRICS_RESOURCE: Final = 16
_UPGRADE, _SAFE_DOWNGRADE = 1, 2

_ABSENT: Final[Mapping[tuple[str, str], Any]] = MappingProxyType(
    {
        ("ApiVersionsRequest", "client_software_name"): "",
        ("ApiVersionsRequest", "client_software_version"): "",
        ("DescribeClusterRequest", "include_fenced_brokers"): False,
        ("DescribeGroupsRequest", "include_authorized_operations"): False,
        ("FeatureUpdateKey", "upgrade_type"): Lifted(
            lambda values: _SAFE_DOWNGRADE if values["allow_downgrade"] else _UPGRADE
        ),
        ("ElectLeadersRequest", "election_type"): _PREFERRED_ELECTION,
        ("ListOffsetsRequest", "isolation_level"): 0,
        ("ListOffsetsRequest", "timeout"): timedelta(0),
        ("MetadataRequest", "include_topic_authorized_operations"): False,
        ("MetadataRequestTopic", "topic_id"): None,
    }
)
"""(class, field) that old versions lack, where the newest has no default that is right."""


def _all_topics_if_none_named(values: dict[str, Any]) -> None:
    """Metadata v0: no topic at all means every topic, which is null from v1 on."""
    values["topics"] = values["topics"] or None


def _topics_by_name(values: dict[str, Any]) -> None:
    """DeleteTopics v1-v5: names, which are entries with a name or an id from v6 on."""
    from kio.schema.delete_topics.v6.request import DeleteTopicState  # noqa: PLC0415  # lazily

    values["topics"] = tuple(
        DeleteTopicState(name=name, topic_id=None) for name in values["topic_names"]
    )


def _one_coordinator(values: dict[str, Any]) -> None:
    """FindCoordinator v0-v3: one key, which is a list from v4 on."""
    values["coordinator_keys"] = (values["key"],)


def _one_transaction(values: dict[str, Any]) -> None:
    """AddPartitionsToTxn v0-v3: one transaction, which is a list from v4 on."""
    from kio.schema.add_partitions_to_txn.v5.request import (  # noqa: PLC0415  # lazily
        AddPartitionsToTxnTransaction,
    )

    values["transactions"] = (
        AddPartitionsToTxnTransaction(
            transactional_id=values["v3_and_below_transactional_id"],
            producer_id=values["v3_and_below_producer_id"],
            producer_epoch=values["v3_and_below_producer_epoch"],
            topics=values["v3_and_below_topics"],
        ),
    )


def _one_leaving_member(values: dict[str, Any]) -> None:
    """LeaveGroup v0-v2: one member id, which is a list of identities from v3 on."""
    from kio.schema.leave_group.v5.request import MemberIdentity  # noqa: PLC0415  # lazily

    values["members"] = (MemberIdentity(member_id=values["member_id"]),)


def _client_metrics_only(values: dict[str, Any]) -> None:
    """ListConfigResources v0 lists client metrics; from v1 on the request says what it wants."""
    values["resource_types"] = (_CLIENT_METRICS_RESOURCE,)


_RESHAPED: Final[Mapping[int, tuple[int, Reshape]]] = MappingProxyType(
    {
        3: (1, _all_topics_if_none_named),
        10: (4, _one_coordinator),
        13: (3, _one_leaving_member),
        20: (6, _topics_by_name),
        24: (4, _one_transaction),
        74: (1, _client_metrics_only),
    }
)
"""API key to the first version of today's shape, and how older ones get it."""


_METADATA, _OF_CLUSTER = 3, range(8, 11)


def _target(api_key: int, version: int, newest: int) -> EntityClass:
    """Return the newest class, or ours of the newest and a field that it lost."""
    if api_key == _METADATA and version in _OF_CLUSTER:
        from protocol.metadata import ClusterMetadataRequest  # noqa: PLC0415  # lazily

        return ClusterMetadataRequest
    return request_class(api_key, newest)


@cache
def lifting_reader(api_key: int, version: int, newest: int) -> Reader:
    """Return the reader of this version's body that makes a request of the newest version."""
    first, reshape = _RESHAPED.get(api_key, (0, None))
    return request_reader(
        request_class(api_key, version),
        _target(api_key, version, newest),
        _ABSENT,
        reshape if version < first else None,
    )
