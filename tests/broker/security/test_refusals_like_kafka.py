"""Requests that nobody may make, and how a refusal looks: as Apache Kafka 4.3.1 answers."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.security.acl import Operation, PatternType, Permission, ResourceType
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from siltstone.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from siltstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from siltstone.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from siltstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.protocol.messages.describe_acls import DescribeAclsRequest
from siltstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from siltstone.protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from siltstone.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from siltstone.protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.protocol.messages.sync_group import SyncGroupRequest
from tests.support.asking_as import Guarded, a_guarded, rule

TOPIC = ResourceType.TOPIC
NO_TOPIC = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
NO_CLUSTER = ErrorCode.cluster_authorization_failed
INVALID = ErrorCode.invalid_request
ADMIN = "User:admin"
UNHEARD_OF = 77
"""A number that no type, pattern, operation or permission has."""


guarded = a_guarded("ab", 2)


def codes(rows: Any) -> list[tuple[str, ErrorCode]]:
    """Return name and error of each row."""
    return sorted((each.name, each.error_code) for each in rows)


async def test_a_refused_producer_has_no_epoch(guarded: Guarded) -> None:
    """Neither id nor epoch are any that there could be."""
    for version in (0, 6):
        answer = await guarded.ask(22, InitProducerIdRequest("t", 60_000), version)
        assert answer.error_code == ErrorCode.transactional_id_authorization_failed
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_a_refused_group_has_no_state(guarded: Guarded) -> None:
    """Not even an unknown one."""
    (row,) = (await guarded.ask(15, DescribeGroupsRequest(["g"]))).groups

    assert (row.error_code, row.group_state) == (NO_GROUP, "")


async def test_a_group_without_protocol_is_told_so_first(guarded: Guarded) -> None:
    """Before the right to the group counts."""
    lacking = SyncGroupRequest("g", 1, "m", None, "consumer", None)
    whole = lacking._replace(protocol_name="range")

    assert (await guarded.ask(14, lacking, 5)).error_code == ErrorCode.inconsistent_group_protocol
    assert (await guarded.ask(14, whole, 5)).error_code == NO_GROUP
    assert (await guarded.ask(14, lacking, 4)).error_code == NO_GROUP


async def test_a_coordinator_that_a_version_has_not(guarded: Guarded) -> None:
    """Is an invalid request, no matter which client asks."""
    for version in (4, 5):
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g"])
        (row,) = (await guarded.ask(10, request, version)).coordinators
        assert row.error_code == INVALID
    one = FindCoordinatorRequest(key="g", key_type=2)
    assert (await guarded.ask(10, one, 3)).error_code == INVALID


async def test_reassignments_that_are_not_told(guarded: Guarded) -> None:
    """The topics that were named come back without their replicas."""
    named = [ListPartitionReassignmentsTopics("a", [1, 7])]
    answer = await guarded.ask(46, ListPartitionReassignmentsRequest(1000, named))

    assert answer.error_code == NO_CLUSTER
    ((topic, partitions),) = [(each.name, each.partitions) for each in answer.topics]
    assert topic == "a"
    assert [(each.partition_index, each.replicas) for each in partitions] == [(1, ()), (7, ())]


async def test_offsets_of_a_group_that_is_not_there(guarded: Guarded) -> None:
    """That is said first, though the client may read none of the topics."""
    await guarded.ask(10, FindCoordinatorRequest(coordinator_keys=["g"]), who=ADMIN)
    guarded.allow(Operation.DELETE, ResourceType.GROUP, "g")
    topics = [OffsetDeleteRequestTopic("a", [OffsetDeleteRequestPartition(0)])]
    answer = await guarded.ask(47, OffsetDeleteRequest("g", topics))

    assert (answer.error_code, answer.topics) == (ErrorCode.group_id_not_found, ())


async def test_a_topic_that_is_named_twice(guarded: Guarded) -> None:
    """Is refused once as such, with or without a right to it."""
    made = [CreatableTopic(each, 1, 1) for each in ("x", "x", "y")]
    answer = await guarded.ask(19, CreateTopicsRequest(made, 1000))
    assert codes(answer.topics) == [("x", INVALID), ("y", NO_TOPIC)]

    grown = [CreatePartitionsTopic(each, 3) for each in ("a", "b", "a")]
    answer = await guarded.ask(37, CreatePartitionsRequest(grown, 1000))
    assert codes(answer.results) == [("a", INVALID), ("b", NO_TOPIC)]

    deleted = DeleteTopicsRequest(topic_names=["a", "b", "b"], timeout_ms=1000)
    answer = await guarded.ask(20, deleted, 5)
    assert codes(answer.responses) == [("a", NO_TOPIC), ("b", INVALID)]
    assert sorted(guarded.home.services.topics.topics) == ["a", "b"]


async def test_a_topic_that_is_gone_is_told_to_who_may_describe_it(guarded: Guarded) -> None:
    """Others are not told whether there is one."""
    gone = DeleteTopicsRequest(topics=[DeleteTopicState("gone")], timeout_ms=1000)
    (before,) = (await guarded.ask(20, gone)).responses
    guarded.allow(Operation.READ, TOPIC)
    (after,) = (await guarded.ask(20, gone)).responses
    there = DeleteTopicsRequest(topics=[DeleteTopicState("a")], timeout_ms=1000)
    (kept,) = (await guarded.ask(20, there)).responses

    assert before.error_code == NO_TOPIC
    assert after.error_code == ErrorCode.unknown_topic_or_partition
    assert kept.error_code == NO_TOPIC


async def test_a_name_that_no_topic_can_have(guarded: Guarded) -> None:
    """Is told as such by DescribeProducers."""
    named = [TopicRequest(each, [0]) for each in ("", "bad name", "a")]
    answer = await guarded.ask(61, DescribeProducersRequest(named))

    assert [(each.name, each.partitions[0].error_code) for each in answer.topics] == [
        ("", ErrorCode.invalid_topic_exception),
        ("bad name", ErrorCode.invalid_topic_exception),
        ("a", NO_TOPIC),
    ]


async def test_settings_of_what_has_none(guarded: Guarded) -> None:
    """The type is wrong for everybody; a description fails as a whole, a change one by one."""
    resources = [DescribeConfigsResource(kind, "a", None) for kind in (1, 2)]
    told = await guarded.ask(32, DescribeConfigsRequest(resources))
    altered = [AlterConfigsResource(kind, "a") for kind in (1, 2, 4)]
    changed = await guarded.ask(33, AlterConfigsRequest(altered))

    assert {each.resource_type: each.error_code for each in changed.responses} == {
        1: INVALID,
        2: NO_TOPIC,
        4: NO_CLUSTER,
    }
    assert [each.error_code for each in told.results] == [INVALID, INVALID]


@pytest.mark.parametrize("key", [33, 44])
async def test_settings_of_other_brokers(guarded: Guarded, key: int) -> None:
    """The right comes first, since Apache Kafka 4.4; before it a resource that is named twice.

    AlterConfigs could change no level of a logger; this broker is asked for the right,
    however its number is written.
    """
    named = (
        (4, "9"),
        (4, "x"),
        (4, ""),
        (4, "1"),
        (4, "+1"),
        (8, "1"),
        (2, "a"),
        (2, "b"),
        (2, "b"),
    )
    request: Any = AlterConfigsRequest([AlterConfigsResource(*each) for each in named])
    if key == 44:
        one = IncrementalAlterConfigsResource
        request = IncrementalAlterConfigsRequest([one(*each) for each in named])
    answer = await guarded.ask(key, request)

    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("9", NO_CLUSTER),
        ("x", NO_CLUSTER),
        ("", NO_CLUSTER),
        ("1", NO_CLUSTER),
        ("+1", NO_CLUSTER),
        ("1", INVALID if key == 33 else NO_CLUSTER),
        ("a", NO_TOPIC),
        ("b", INVALID),
        ("b", INVALID),
    ]


async def test_who_may_delete_a_topic_and_not_describe_it(guarded: Guarded) -> None:
    """May delete it by its id alone, since the name would tell that it exists."""
    guarded.allow(Operation.DELETE, TOPIC)
    deny = rule(Operation.DESCRIBE, TOPIC, "a", Permission.DENY)
    guarded.authorizer.add([deny])
    key = guarded.home.services.topics.topics["a"].key
    states = [DeleteTopicState("a"), DeleteTopicState("gone")]
    by_name = await guarded.ask(20, DeleteTopicsRequest(topics=states, timeout_ms=1000))
    states = [DeleteTopicState(None, key)]
    by_id = await guarded.ask(20, DeleteTopicsRequest(topics=states, timeout_ms=1000))

    assert codes(by_name.responses) == [
        ("a", NO_TOPIC),
        ("gone", ErrorCode.unknown_topic_or_partition),
    ]
    assert codes(by_id.responses) == [("a", ErrorCode.none)]


async def test_a_rule_for_a_host_that_is_none_is_refused_alone(guarded: Guarded) -> None:
    """In the words of Apache Kafka 4.4.0; the others are made, with the hosts as they came."""
    hosts = ["", "10.0.0.5/8", "10.0.0.0/33", "localhost"]
    rows = [
        AclCreation(TOPIC, "a", PatternType.LITERAL, "User:bob", host, Operation.READ, 3)
        for host in hosts
    ]
    created = await guarded.ask(30, CreateAclsRequest(rows), who=ADMIN)

    assert [each.error_code for each in created.results] == [
        INVALID,
        ErrorCode.none,
        INVALID,
        ErrorCode.none,
    ]
    assert created.results[0].error_message == "Host pattern cannot be null or empty"
    assert "Invalid CIDR notation '10.0.0.0/33'" in str(created.results[2].error_message)
    assert [acl.host for acl in guarded.authorizer] == ["10.0.0.5/8", "localhost"]


async def test_rules_with_elements_of_a_later_release(guarded: Guarded) -> None:
    """Nothing is found, nothing is deleted, nothing is made; the connection stays."""
    anything = {"operation": 1, "permission_type": 1}
    wanted = DescribeAclsRequest(UNHEARD_OF, None, PatternType.ANY, None, None, **anything)
    told = await guarded.ask(29, wanted, who=ADMIN)
    assert (told.error_code, told.resources) == (ErrorCode.none, ())

    rows = [
        DeleteAclsFilter(kind, None, PatternType.ANY, None, None, **anything)
        for kind in (ResourceType.ANY, UNHEARD_OF, ResourceType.GROUP)
    ]
    deleted = await guarded.ask(31, DeleteAclsRequest(rows), who=ADMIN)
    assert [each.error_code for each in deleted.filter_results] == [
        ErrorCode.none,
        INVALID,
        ErrorCode.none,
    ]

    made = [
        AclCreation(TOPIC, "a", PatternType.LITERAL, "User:bob", "*", operation, 3)
        for operation in (UNHEARD_OF, Operation.READ)
    ]
    created = await guarded.ask(30, CreateAclsRequest(made), who=ADMIN)
    assert [each.error_code for each in created.results] == [INVALID, ErrorCode.none]

    with pytest.raises(ProtocolError, match="unknown elements"):
        await guarded.ask(29, wanted._replace(operation=0), who=ADMIN)
