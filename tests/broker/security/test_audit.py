"""The audit log: clients and their deeds, in a file of its own, and never what was in it."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.api import BY_KEY
from siltstone.broker.process.bounded_lines import MAX_PER_SECOND
from siltstone.broker.security.acl import Operation, ResourceType
from siltstone.broker.security.audit import Audit
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from siltstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from siltstone.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from siltstone.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from siltstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.asking_as import HOST, Guarded
from tests.support.clock import FakeClock
from tests.support.waiting import begin_and_go


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the lines go."""
    return tmp_path / "audit.log"


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands."""
    return FakeClock()


@pytest.fixture
def audit(clock: FakeClock, file: Path) -> Iterator[Audit]:
    """An audit log."""
    made = Audit(clock, file)
    yield made
    made.close()


def lines(file: Path) -> list[dict[str, Any]]:
    """Return what a file says, without the times."""
    parsed = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(line.pop("time").endswith("Z") for line in parsed)
    return parsed


def test_strangers_do_not_hide_what_was_refused(audit: Audit, file: Path) -> None:
    """Logins that fail have a bound of their own: nobody needs a name for them."""
    for _ in range(2 * MAX_PER_SECOND):
        audit.login_failed("192.0.2.9:1", "LAN", "PLAIN", "no")
    audit.refused("User:bob", "192.0.2.1", "READ", "TOPIC", "orders")

    assert [line["event"] for line in lines(file)][MAX_PER_SECOND:] == ["refused"]
    assert "others" not in lines(file)[-1]


def test_a_refusal_says_who_wanted_what(audit: Audit, file: Path) -> None:
    """In a file that nobody else reads."""
    audit.refused("User:bob", "192.0.2.1", "READ", "TOPIC", "orders")

    assert lines(file) == [
        {
            "event": "refused",
            "principal": "User:bob",
            "host": "192.0.2.1",
            "operation": "READ",
            "resource": "TOPIC",
            "name": "orders",
        }
    ]
    assert file.stat().st_mode & 0o7777 == 0o600


def test_a_stranger_does_not_fill_the_disk(audit: Audit, clock: FakeClock, file: Path) -> None:
    """Beyond some refusals a second the others are counted; a name is cut."""
    for _ in range(MAX_PER_SECOND + 500):
        audit.refused("User:bob", "192.0.2.1", "READ", "TOPIC", "x" * 30_000)
    clock.advance(1000)
    audit.refused("User:bob", "192.0.2.1", "READ", "TOPIC", "y")
    told = lines(file)

    assert len(told) == MAX_PER_SECOND + 1
    assert max(len(line["name"]) for line in told) == 256
    assert told[-1]["others"] == 500
    assert audit.refused_count == MAX_PER_SECOND + 501


def test_a_file_that_was_moved_away_is_made_anew(audit: Audit, file: Path) -> None:
    """As logrotate does it."""
    audit.logged_in("User:a", "h:1", "LAN", "PLAIN")
    file.rename(file.with_suffix(".1"))
    audit.logged_in("User:b", "h:1", "LAN", "PLAIN")

    assert [line["principal"] for line in lines(file)] == ["User:b"]
    assert [line["principal"] for line in lines(file.with_suffix(".1"))] == ["User:a"]


def test_without_a_file_the_broker_tells_it_in_its_log(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """By a logger of its own name."""
    caplog.set_level(logging.INFO)
    Audit(clock).refused("User:bob", "h", "READ", "TOPIC", "t")
    (record,) = caplog.records

    assert record.name == "siltstone.audit"
    assert json.loads(record.getMessage())["event"] == "refused"


def test_a_client_writes_no_line_of_its_own(audit: Audit, file: Path) -> None:
    """A name with a line break is quoted."""
    audit.refused("User:bob", "h", "READ", "TOPIC", 'x\n{"event":"login"}')

    assert len(lines(file)) == 1


async def test_changes_are_told_by_name_and_never_by_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """ACLs, users, settings and deletions; a refused or a fruitless one is no change."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    topics = guarded.home.services.topics
    await topics.create("orders", 1, {})
    admin = "User:admin"
    acl = AclCreation(2, "orders", 3, "User:bob", "*", Operation.READ, 3)
    await guarded.ask(30, CreateAclsRequest([acl, acl._replace(resource_name="")]), who=admin)
    await guarded.ask(
        31, DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), who=admin
    )
    user = ScramCredentialUpsertion("carol", 1, 4096, b"salty-salt", b"s" * 32)
    await guarded.ask(51, AlterUserScramCredentialsRequest([], [user]), who=admin)
    settings = [AlterableConfig("retention.ms", 0, "123456789")]
    await guarded.ask(
        44, IncrementalAlterConfigsRequest([AlterConfigsResource(2, "orders", settings)]), who=admin
    )
    doomed = DeleteTopicsRequest([DeleteTopicState(name) for name in ("orders", "nowhere")])
    await guarded.ask(20, doomed, who=admin)
    await guarded.close()
    told = [json.loads(record.getMessage()) for record in caplog.records]

    assert [(line["api"], line["resource"], line["name"]) for line in told] == [
        ("CreateAcls", "TOPIC", "orders"),
        ("DeleteAcls", "TOPIC", "orders"),
        ("AlterUserScramCredentials", "USER", "carol"),
        ("IncrementalAlterConfigs", "TOPIC", "orders"),
        ("DeleteTopics", "TOPIC", "orders"),
    ]
    assert {(line["event"], line["principal"], line["host"]) for line in told} == {
        ("change", admin, HOST)
    }
    assert told[0]["for"] == "User:bob"
    assert told[3]["settings"] == ["retention.ms"]
    assert "123456789" not in caplog.text
    assert "salt" not in caplog.text


@pytest.mark.parametrize("key", [30, 51])
async def test_a_change_is_told_though_its_client_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: int
) -> None:
    """Closing the connection behind a request hides nothing, and undoes nothing."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    acl = AclCreation(2, "orders", 3, "User:bob", "*", Operation.READ, 3)
    user = ScramCredentialUpsertion("carol", 1, 4096, b"salty-salt", b"s" * 32)
    request = {30: CreateAclsRequest([acl]), 51: AlterUserScramCredentialsRequest([], [user])}[key]
    changes = guarded.changes
    serve = changes.follow(BY_KEY[key]).load()
    await begin_and_go(serve(guarded.context(key, who="User:admin"), request))
    await changes.finish()
    security = guarded.home.services.security
    made = [*guarded.authorizer, *security.users.get().credentials]
    await guarded.close()
    (told,) = [json.loads(record.getMessage()) for record in caplog.records]

    assert len(made) == 1
    assert (told["event"], told["api"]) == ("change", BY_KEY[key].name)


async def test_a_changed_feature_is_told_with_its_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The level of a feature is not that of the line."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    update = FeatureUpdateKey("transaction.version", 1, False, 2)
    answer = await guarded.ask(57, UpdateFeaturesRequest(5000, [update], False), who="User:admin")
    await guarded.close()

    (record,) = caplog.records
    told = json.loads(record.getMessage())
    assert answer.error_code == 0
    assert (told["resource"], told["name"], told["level"]) == ("FEATURE", "transaction.version", 1)


async def test_a_quota_that_is_set_is_told_and_one_that_is_there_twice_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused change has changed nothing, however many answers there are."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    percentage = [OpData("request_percentage", 5.0)]
    once, twice = [[EntityData("user", name)] for name in ("once", "twice")]
    both = [EntityData("user", "twice"), EntityData("client-id", "c")]
    asked = [EntryData(each, percentage) for each in (twice, once, both[::-1], twice)]
    answer = await guarded.ask(49, AlterClientQuotasRequest(asked), who="User:admin")
    values = guarded.home.services.security.quotas.get().values
    await guarded.close()
    told = [json.loads(record.getMessage()) for record in caplog.records]

    assert [each.error_code for each in answer.entries] == [42, 0, 0]
    assert [line["name"] for line in told] == [
        {"user": "once"},
        {"user": "twice", "client-id": "c"},
    ]
    assert len(values) == len(told)
    assert {tuple(line["settings"]) for line in told} == {("request_percentage",)}


async def test_offsets_that_are_not_deleted_are_no_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a topic that is refused, beside one whose offsets go."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    for name in ("orders", "secret"):
        await guarded.home.services.topics.create(name, 1, {})
    admin = "User:admin"
    await guarded.ask(10, FindCoordinatorRequest(coordinator_keys=["g"]), who=admin)
    committed = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5)])
    await guarded.ask(8, OffsetCommitRequest("g", topics=[committed]), 8, who=admin)
    guarded.allow(Operation.DELETE, ResourceType.GROUP, "g")
    guarded.allow(Operation.READ, ResourceType.TOPIC, "orders")
    doomed = [OffsetDeleteRequestPartition(0)]
    request = OffsetDeleteRequest(
        "g", [OffsetDeleteRequestTopic(name, doomed) for name in ("orders", "secret")]
    )
    await guarded.ask(47, request)
    await guarded.close()
    told = [json.loads(record.getMessage()) for record in caplog.records]

    assert [line.get("topic", line["name"]) for line in told if line["event"] == "change"] == [
        "orders"
    ]
    assert [line["name"] for line in told if line["event"] == "refused"] == ["secret"]


async def test_what_is_left_out_of_a_listing_is_no_refusal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else every listing of topics would be a page of them."""
    caplog.set_level(logging.INFO, "siltstone.audit")
    guarded = await Guarded(tmp_path / "home").open()
    await guarded.home.services.topics.create("orders", 1, {})
    await guarded.ask(3, MetadataRequest(None))
    assert not caplog.records

    await guarded.ask(3, MetadataRequest([MetadataRequestTopic(name="orders")]))
    await guarded.close()
    (record,) = caplog.records
    line = json.loads(record.getMessage())
    assert (line["operation"], line["resource"], line["name"]) == ("DESCRIBE", "TOPIC", "orders")
    assert ResourceType[line["resource"]] is ResourceType.TOPIC
