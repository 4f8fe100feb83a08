"""Rights over a socket: a user may what the ACLs say, from one request to the next."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from siltstone.config.errors import StartError
from siltstone.config.security import STANDARD_AUTHORIZER
from tests.support.acl_requests import allow, every
from tests.support.common_requests import authenticate, create_topics, enter, handshake
from tests.support.running import Caller, Running, running

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETS = (
    "listeners=LAN://127.0.0.1:0,OPEN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT,OPEN:PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_admin=a user_bob=b;",
    "connection.failed.authentication.delay.ms=0",
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    "super.users=User:admin",
)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker whose first listener asks for a login, and whose second does not."""
    audit = f"audit.log.file={tmp_path / 'audit.log'}"
    async with running(tmp_path / "data", *SETS, audit) as started:
        yield started


async def test_a_right_bites_from_the_next_request_on(home: Running) -> None:
    """Given and taken away while the client stays connected."""
    admin, bob = await enter(home, "admin", "a"), await enter(home, "bob", "b")
    codes = []
    for change in (None, allow(5, 2, "t1"), every(31)):
        if change is not None:
            await admin.ask(change)
        codes.append((await bob.ask(create_topics("t1"))).topics[0].error_code)

    assert codes == [
        ErrorCode.topic_authorization_failed,
        ErrorCode.none,
        ErrorCode.topic_authorization_failed,
    ]


async def test_rules_are_told_and_removed_by_filters(home: Running) -> None:
    """As kafka-acls asks for them; and only by clients that may."""
    admin, bob = await enter(home, "admin", "a"), await enter(home, "bob", "b")
    await admin.ask(allow(3, 2, "t1"))
    await admin.ask(allow(4, 2, "t1", 2))
    (wrong,) = (await admin.ask(allow(7, 4, "other"))).results
    described = await admin.ask(every(29))
    refused = await bob.ask(every(29))
    removed = await admin.ask(every(31))

    assert wrong.error_code is ErrorCode.invalid_request
    (resource,) = described.resources
    assert (resource.resource_name, len(resource.acls)) == ("t1", 2)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert len(removed.filter_results[0].matching_acls) == 2
    assert (await admin.ask(every(29))).resources == ()


async def test_a_network_that_is_forbidden_gets_nothing(home: Running) -> None:
    """The client's own address counts, and what is no network is refused alone."""
    admin, bob = await enter(home, "admin", "a"), await enter(home, "bob", "b")
    codes = []
    for permission, hosts in (
        (3, ["*"]),
        (2, ["10.0.0.0/8"]),
        (2, ["127.1.2.3/33", "127.0.0.9/8"]),
    ):
        made = await admin.ask(allow(5, 2, "*", permission, hosts))
        codes += [each.error_code for each in made.results]
        answer = await bob.ask(create_topics(f"t{len(codes)}"))
        codes.append(answer.topics[0].error_code)
    (resource,) = (await admin.ask(every(29))).resources

    assert codes == [ErrorCode.none] * 4 + [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.topic_authorization_failed,
    ]
    assert [each.host for each in resource.acls] == ["*", "10.0.0.0/8", "127.0.0.9/8"]


async def test_who_did_not_log_in_is_anonymous(home: Running) -> None:
    """On a listener that asks nobody, and without rights unless a rule gives them."""
    caller = Caller(await home.connect(1))
    answer = await caller.ask(create_topics("t"))

    assert answer.topics[0].error_code is ErrorCode.topic_authorization_failed


async def test_rules_are_in_force_after_a_restart(tmp_path: Path) -> None:
    """They are read before anybody is served."""
    for start in range(2):
        async with running(tmp_path / "data", *SETS) as home:
            if not start:
                await (await enter(home, "admin", "a")).ask(allow(5, 2, "t"))
            else:
                answer = await (await enter(home, "bob", "b")).ask(create_topics("t"))

    assert answer.topics[0].error_code is ErrorCode.none


async def test_nobody_is_another_by_what_a_request_says(home: Running) -> None:
    """CVE-2017-12610: the name of a login is the one whose password was given, and no other.

    A token that asks to act for somebody else is refused; a client id gives no rights.
    """
    caller = await home.call()
    await caller.ask(handshake())
    refused = await caller.ask(authenticate(b"admin\0bob\0b"))
    bob = await enter(home, "bob", "b")
    bob.client_id = "admin"
    answer = await bob.ask(create_topics("t"))

    assert refused.error_code is ErrorCode.sasl_authentication_failed
    assert answer.topics[0].error_code is ErrorCode.topic_authorization_failed


async def test_the_audit_log_tells_it_all(home: Running, tmp_path: Path) -> None:
    """Logins that succeed and fail, refusals and changes; no password."""
    await (await enter(home, "bob", "b")).ask(create_topics("t"))
    caller = await home.call()
    await caller.ask(handshake())
    await caller.ask(authenticate(b"\0bob\0swordfish"))
    await (await enter(home, "admin", "a")).ask(create_topics("t"))
    text = (tmp_path / "audit.log").read_text()
    told = [json.loads(line) for line in text.splitlines()]

    assert [line["event"] for line in told] == [
        "login",
        "refused",
        "login failed",
        "login",
        "change",
    ]
    assert told[0]["principal"] == "User:bob"
    assert "swordfish" not in text


async def test_a_broker_with_rights_tries_itself(home: Running) -> None:
    """Its own requests need no rule."""
    await home.probe.round_trip()


async def test_damaged_rules_stop_the_start(tmp_path: Path) -> None:
    """Without them it would be open, or closed."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "siltstone-acls.json"
    path.write_text("{")
    path.chmod(0o600)

    with pytest.raises(StartError, match="damaged"):
        async with running(folder, *SETS):
            pass


@pytest.mark.parametrize("name", ["siltstone-acls.json", "siltstone-users.json"])
async def test_rules_in_another_log_directory_stop_the_start(tmp_path: Path, name: str) -> None:
    """After log.dirs was put in another order, what forbids would be forgotten."""
    second = tmp_path / "second"
    second.mkdir()
    (second / name).touch(mode=0o600)
    directories = f"log.dirs={tmp_path / 'first'},{second}"

    with pytest.raises(StartError, match=r"is not in the first log directory.*put .*second first"):
        async with running(tmp_path / "first", *SETS, directories):
            pass


@pytest.mark.parametrize("others", [(), ("other",)])
async def test_a_file_in_place_of_a_log_directory_is_named(
    tmp_path: Path, others: tuple[str, ...]
) -> None:
    """And not what would be looked for in it."""
    file = tmp_path / "file"
    file.touch()
    directories = ",".join([*(str(tmp_path / each) for each in others), str(file)])

    with pytest.raises(StartError, match=rf"{file} is not a folder; choose another log\.dirs"):
        async with running(file, f"log.dirs={directories}"):
            pass


async def test_an_audit_log_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    """Somebody relies on it."""
    with pytest.raises(StartError, match=r"audit\.log\.file"):
        async with running(tmp_path / "data", *SETS, f"audit.log.file={tmp_path}/none/a.log"):
            pass
