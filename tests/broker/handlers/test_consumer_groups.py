"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as requests and answers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.errors import ErrorCode

from siltstone.broker.handlers import authorized
from siltstone.broker.security.rights import GROUP_OPERATIONS
from siltstone.broker.topics.features import Update, UpgradeType
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

HEARTBEAT, DESCRIBE = 68, 69


async def beat(home: ServicesOnDisk, version: int = 1, **said: Any) -> Any:
    """Send a heartbeat; without more, the first one of member "m" of group "g"."""
    await home.services.groups().journal.ensure_created()
    values: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": timedelta(milliseconds=60_000),
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    kind: Any = load_request_schema(HEARTBEAT, version)
    return await ask(home, HEARTBEAT, kind(**values | said), version)


async def describe(
    home: ServicesOnDisk, *groups: str, version: int = 1, asked: bool = False
) -> Any:
    """Describe groups."""
    wanted = request(DESCRIBE, 1, group_ids=groups, include_authorized_operations=asked)
    return (await ask(home, DESCRIBE, wanted, version)).groups


@pytest.mark.parametrize("version", range(2))
async def test_a_member_joins_and_is_described(home: ServicesOnDisk, version: int) -> None:
    """Topics that it has and is to have, by id and name; versions differ in its type alone."""
    topic = await home.services.topics.create("t", 2, {})
    answer = await beat(home, version)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "m", 2)
    assert answer.heartbeat_interval == timedelta(seconds=5)
    [assigned] = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic.id, (0, 1))

    [group] = await describe(home, "g", version=version, asked=True)

    assert (group.error_code, group.group_state, group.assignor_name) == (
        ErrorCode.none,
        "Stable",
        "uniform",
    )
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert group.authorized_operations == sum(1 << each for each in GROUP_OPERATIONS)
    [member] = group.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("m", 2, "test")
    assert member.subscribed_topic_names == ("t",)
    for assignment in (member.assignment, member.target_assignment):
        [held] = assignment.topic_partitions
        assert (held.topic_id, held.topic_name, held.partitions) == (topic.id, "t", (0, 1))
    assert version == 0 or member.member_type == 1


async def test_a_topic_that_is_gone_is_not_described(home: ServicesOnDisk) -> None:
    """Tools would ask for its name for ever."""
    await home.services.topics.create("t", 1, {})
    await beat(home)
    await home.services.topics.delete(home.services.topics.topics["t"])

    [group] = await describe(home, "g")

    assert group.members[0].assignment.topic_partitions == ()
    assert group.authorized_operations == authorized.NOT_ASKED


async def test_a_first_version_member_is_given_its_id(home: ServicesOnDisk) -> None:
    """22 characters of base64, as Kafka makes them; later versions bring their own."""
    answer = await beat(home, 0, member_id="")

    assert answer.error_code is ErrorCode.none
    assert len(answer.member_id) == 22
    assert (await beat(home, 1, member_id="")).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"member_epoch": -3}, ErrorCode.invalid_request),
        ({"member_epoch": 3}, ErrorCode.group_id_not_found),
        ({"member_epoch": -1}, ErrorCode.group_id_not_found),
        ({"server_assignor": "sticky"}, ErrorCode.unsupported_assignor),
        ({"subscribed_topic_regex": "("}, ErrorCode.invalid_regular_expression),
    ],
)
async def test_refusals_say_why(
    home: ServicesOnDisk, said: dict[str, Any], code: ErrorCode
) -> None:
    """With Kafka's code and a sentence, and there is no group afterwards."""
    answer = await beat(home, **said)

    assert answer.error_code is code
    assert answer.error_message
    assert answer.assignment is None
    assert home.services.groups().groups == {}


async def test_owned_partitions_may_be_listed_in_pieces(home: ServicesOnDisk) -> None:
    """A topic twice is the same as once with all of its partitions."""
    topic = await home.services.topics.create("t", 2, {})
    await beat(home)
    await beat(home, member_id="n")
    pieces = tuple(TopicPartitions(topic_id=topic.id, partitions=(each,)) for each in (0, 1))

    answer = await beat(
        home,
        member_epoch=2,
        topic_partitions=pieces,
        rebalance_timeout=timedelta(milliseconds=-1),
        subscribed_topic_names=None,
    )

    assert answer.error_code is ErrorCode.none
    assert answer.member_epoch == 2


async def test_a_member_without_topics_has_an_epoch_too(home: ServicesOnDisk) -> None:
    """Epoch 0 would be that of a member which is yet to join."""
    answer = await beat(home, subscribed_topic_names=())
    [group] = await describe(home, "g")

    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 1)
    assert (group.group_epoch, group.assignment_epoch, group.group_state) == (1, 1, "Stable")
    assert group.members[0].subscribed_topic_regex == ""


async def test_what_is_no_consumer_group_is_not_described(home: ServicesOnDisk) -> None:
    """Admin clients go on with DescribeGroups then."""
    await home.services.groups().journal.ensure_created()
    home.services.groups().add_classic("classic")

    *groups, nameless = await describe(home, "missing", "classic", "")

    assert [(each.error_code, each.error_message) for each in groups] == [
        (ErrorCode.group_id_not_found, "Group missing not found."),
        (ErrorCode.group_id_not_found, "Group classic is not a consumer group."),
    ]
    assert (nameless.error_code, nameless.error_message) == (ErrorCode.invalid_group_id, None)


@pytest.mark.parametrize("how", ["setting", "feature"])
async def test_the_protocol_can_be_switched_off(tmp_path: Path, how: str) -> None:
    """By group.coordinator.rebalance.protocols, or group.version 0: UNSUPPORTED_VERSION."""
    settings = {"group_coordinator_rebalance_protocols": "classic"} if how == "setting" else {}
    home = await ServicesOnDisk(tmp_path / "home", directories=1, **settings).open()
    if how == "feature":
        update = Update("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
        await home.services.features.update([update], validate_only=False)

    assert (await beat(home)).error_code is ErrorCode.unsupported_version
    [group] = await describe(home, "g")
    assert group.error_code is ErrorCode.unsupported_version
    await home.close()


async def test_settings_of_a_group_are_told_to_its_members(home: ServicesOnDisk) -> None:
    """From the next heartbeat on."""
    await beat(home)
    await home.services.settings.alter_group("g", {"consumer.heartbeat.interval.ms": "6000"})

    answer = await beat(home, member_epoch=2)

    assert answer.heartbeat_interval == timedelta(seconds=6)
