"""The file of the ACLs: whole, private, and nothing lost when something is removed."""

import logging
from pathlib import Path

import pytest

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from siltstone.broker.security.acl_store import FILE_NAME, AclWriter, load_acls
from siltstone.broker.security.authorizer import Authorizer
from siltstone.broker.security.private_file import PrivateFileError
from tests.support.asking_as import rule
from tests.support.waiting import begin_and_go

READ = rule(Operation.READ, ResourceType.TOPIC, "orders")
WRITE = rule(Operation.WRITE, ResourceType.TOPIC, "orders", Permission.DENY, host="192.0.2.1")
OTHER = rule(Operation.ALL, ResourceType.GROUP, 'bó"b\n', principal="User:CN=b,O=c:d")


async def test_rules_are_there_after_a_start(tmp_path: Path, io: IoThreads) -> None:
    """With every part as it was given, each once."""
    await AclWriter(tmp_path, Authorizer(), io).add([READ, OTHER, WRITE, READ])

    assert load_acls(tmp_path) == [READ, OTHER, WRITE]


async def test_one_that_is_removed_leaves_the_others_of_its_resource(
    tmp_path: Path, io: IoThreads
) -> None:
    """CVE-2024-27309: of several rules for a resource the rest stays, in force and on the disk."""
    authorizer = Authorizer([READ, WRITE, OTHER])
    (removed,) = await AclWriter(tmp_path, authorizer, io).remove(
        [AclFilter(name="orders", operation=Operation.READ)]
    )

    assert removed == [READ]
    assert set(authorizer) == set(load_acls(tmp_path)) == {WRITE, OTHER}
    assert not authorizer.allows("User:bob", "192.0.2.1", 4, 2, "orders")


async def test_the_last_rule_of_one_resource_takes_no_other(tmp_path: Path, io: IoThreads) -> None:
    """CVE-2024-27309: nor does what a prefix says of more resources go with it."""
    prefixed = READ._replace(
        pattern=READ.pattern._replace(pattern_type=PatternType.PREFIXED, name="ord")
    )
    authorizer = Authorizer([READ, prefixed])
    await AclWriter(tmp_path, authorizer, io).remove(
        [AclFilter(pattern_type=PatternType.LITERAL, name="orders")]
    )

    assert load_acls(tmp_path) == [prefixed]
    assert authorizer.allows("User:bob", "h", Operation.READ, ResourceType.TOPIC, "orders")


async def test_a_client_that_goes_leaves_no_half_change(tmp_path: Path, io: IoThreads) -> None:
    """A change that has begun is done on the disk and in force, before what comes next."""
    authorizer = Authorizer([OTHER])
    writer = AclWriter(tmp_path, authorizer, io)
    await begin_and_go(writer.add([READ]))
    await begin_and_go(writer.remove([AclFilter(name=OTHER.pattern.name)]))
    await writer.add([WRITE])
    await begin_and_go(writer.remove([AclFilter(operation=WRITE.operation)]))
    await writer.file.finish()

    assert load_acls(tmp_path) == list(authorizer) == [READ]


async def test_the_file_is_nobody_elses(tmp_path: Path, io: IoThreads) -> None:
    """Rules say what a user may do; a user that may write them may do everything."""
    await AclWriter(tmp_path, Authorizer(), io).add([READ])
    path = tmp_path / FILE_NAME
    assert path.stat().st_mode & 0o7777 == 0o600

    path.chmod(0o644)
    with pytest.raises(PrivateFileError, match="chmod 0600"):
        load_acls(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        '{"version": 2, "acls": []}',
        '{"version": 1, "acls": {}}',
        (
            '{"version": 1, "acls": [["TOPIC", "LITERAL", "a", "User:a", "*", "ALL", "DENY"]], '
            '"acls": []}'
        ),
        "[" * 200_000,
        '{"version": 1, "acls": [["TOPIC", "LITERAL", "a", "User:a", "*", "READ"]]}',
        '{"version": 1, "acls": [["TOPIC", "MATCH", "a", "User:a", "*", "READ", "ALLOW"]]}',
        '{"version": 1, "acls": [["TOPIC", "LITERAL", "", "User:a", "*", "READ", "ALLOW"]]}',
        '{"version": 1, "acls": [["TOPIC", "LITERAL", 5, "User:a", "*", "READ", "ALLOW"]]}',
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    """A start without some of the rules would let in whom they forbid."""
    path = tmp_path / FILE_NAME
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(PrivateFileError, match="damaged"):
        load_acls(tmp_path)


def test_no_file_is_no_rules(tmp_path: Path) -> None:
    """As before the first one is made."""
    assert load_acls(tmp_path) == []


async def test_rules_whose_hosts_are_refused_today_are_kept_and_named(
    tmp_path: Path, io: IoThreads, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version took every text; the start goes on, and says which rules never apply."""
    hosts = ["", "10.0.0.0/33", *(f"host-{number}/8" for number in range(30)), "10.0.0.0/8", "*"]
    rules = [READ._replace(host=host) for host in hosts]
    await AclWriter(tmp_path, Authorizer(), io).add([*rules, WRITE._replace(host="10.0.0.0/33")])

    with caplog.at_level(logging.WARNING):
        assert load_acls(tmp_path) == [*rules, WRITE._replace(host="10.0.0.0/33")]
    (record,) = caplog.records
    text = record.getMessage()
    assert 'rules=33 hosts=["", "10.0.0.0/33", "host-0/8", ' in text
    assert "host-17/8" in text
    assert "host-18/8" not in text
    caplog.clear()
    await AclWriter(tmp_path, Authorizer(), io).replace([READ, *rules[-2:]])
    load_acls(tmp_path)
    assert caplog.records == []
