"""ACLs, quotas and SCRAM users where no such thing is kept: Apache Kafka 4.3.1's own bytes."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.kio_messages import request
from tests.support.running import Running, a_broker

LITERAL = 3
NOBODY = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


home = a_broker()


def acls(version: int, resource_type: int = 1) -> Any:
    """Return a DescribeAcls of everything."""
    return request(29, version, resource_type_filter=resource_type, pattern_type_filter=1, **NOBODY)


def new_acls(version: int, *principals: str) -> Any:
    """Return a CreateAcls."""
    row = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": LITERAL,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return request(30, version, creations=[row | {"principal": each} for each in principals])


def no_acls(version: int, count: int) -> Any:
    """Return a DeleteAcls."""
    row = {"resource_type_filter": 1, "pattern_type_filter": 1, **NOBODY}
    return request(31, version, filters=[row] * count)


def quotas(version: int, *components: tuple[str, int, str | None]) -> Any:
    """Return a DescribeClientQuotas."""
    rows = [
        {"entity_type": kind, "match_type": how, "match": what} for kind, how, what in components
    ]
    return request(48, version, components=rows)


def users(*names: str) -> Any:
    """Return a DescribeUserScramCredentials."""
    return request(50, 0, users=[{"name": each} for each in names] or None)


def upsert(name: str, password: bytes) -> dict[str, Any]:
    """Return a user of an AlterUserScramCredentials."""
    made = {"name": name, "mechanism": 1, "iterations": 4096, "salt": b"s"}
    return made | {"salted_password": password}


BYTES: list[tuple[Any, str]] = [
    (
        acls(1),
        (
            "0000000100000000003600294e6f20417574686f72697a657220697320636f6e6669677572656420"
            "6f6e207468652062726f6b657200000000"
        ),
    ),
    (
        acls(2),
        (
            "00000001000000000000362a4e6f20417574686f72697a657220697320636f6e6669677572656420"
            "6f6e207468652062726f6b65720100"
        ),
    ),
    (
        acls(3),
        (
            "00000001000000000000362a4e6f20417574686f72697a657220697320636f6e6669677572656420"
            "6f6e207468652062726f6b65720100"
        ),
    ),
    (
        new_acls(1, "User:a", "bad"),
        (
            "0000000100000000000000020036001c4e6f20417574686f72697a657220697320636f6e66696775"
            "7265642e0036001c4e6f20417574686f72697a657220697320636f6e666967757265642e"
        ),
    ),
    (
        new_acls(3, "User:a", "bad"),
        (
            "0000000100000000000300361d4e6f20417574686f72697a657220697320636f6e66696775726564"
            "2e0000361d4e6f20417574686f72697a657220697320636f6e666967757265642e0000"
        ),
    ),
    (new_acls(2), "0000000100000000000100"),
    (
        no_acls(1, 2),
        (
            "0000000100000000000000020036001c4e6f20417574686f72697a657220697320636f6e66696775"
            "7265642e000000000036001c4e6f20417574686f72697a657220697320636f6e666967757265642e"
            "00000000"
        ),
    ),
    (
        no_acls(3, 2),
        (
            "0000000100000000000300361d4e6f20417574686f72697a657220697320636f6e66696775726564"
            "2e010000361d4e6f20417574686f72697a657220697320636f6e666967757265642e010000"
        ),
    ),
    (no_acls(2, 0), "0000000100000000000100"),
    (quotas(0), "00000001000000000000000000000000"),
    (quotas(1), "0000000100000000000000010100"),
    (quotas(1, ("user", 0, "a")), "0000000100000000000000010100"),
    (quotas(1, ("user", 1, None), ("client-id", 2, None)), "0000000100000000000000010100"),
    (
        quotas(1, ("nope", 2, None)),
        "00000001000000000000231d556e737570706f7274656420656e746974792074797065206e6f70650000",
    ),
    (
        quotas(1, ("", 2, None)),
        "000000010000000000002a1b496e76616c696420656d70747920656e7469747920747970652e0000",
    ),
    (
        quotas(1, ("user", 7, None)),
        "000000010000000000002a15556e6b6e6f776e206d61746368207479706520370000",
    ),
    (
        quotas(1, ("user", 2, None), ("user", 2, None)),
        (
            "000000010000000000002a3d456e74697479207479706520757365722063616e6e6f742061707065"
            "6172206d6f7265207468616e206f6e636520696e207468652066696c7465722e0000"
        ),
    ),
    (
        quotas(1, ("user", 2, None), ("ip", 2, None)),
        (
            "000000010000000000002a7c496e76616c696420656e746974792066696c74657220636f6d706f6e"
            "656e7420636f6d62696e6174696f6e2e2049502066696c74657220636f6d706f6e656e742073686f"
            "756c64206e6f74206265207573656420776974682075736572206f7220636c69656e744964206669"
            "6c74657220636f6d706f6e656e742e0000"
        ),
    ),
    (
        quotas(1, ("user", 0, None)),
        (
            "000000010000000000002a425265717565737420737065636966696564204d415443485f54595045"
            "5f45584143542c2062757420736574206d6174636820737472696e6720746f206e756c6c2e0000"
        ),
    ),
    (
        quotas(1, ("user", 2, "x")),
        (
            "000000010000000000002a4b5265717565737420737065636966696564204d415443485f54595045"
            "5f5350454349464945442c2062757420616c736f207370656369666965642061206d617463682073"
            "7472696e672e0000"
        ),
    ),
    (users(), "0000000100000000000000010100"),
    (
        users("a"),
        (
            "000000010000000000000001020261005b3d417474656d707420746f206465736372696265206120"
            "757365722063726564656e7469616c207468617420646f6573206e6f742065786973743a20610100"
            "00"
        ),
    ),
    (
        users("a", "b"),
        (
            "000000010000000000000001030261005b3d417474656d707420746f206465736372696265206120"
            "757365722063726564656e7469616c207468617420646f6573206e6f742065786973743a20610100"
            "0262005b3d417474656d707420746f206465736372696265206120757365722063726564656e7469"
            "616c207468617420646f6573206e6f742065786973743a2062010000"
        ),
    ),
    (
        users(""),
        (
            "0000000100000000000000010201005b3c417474656d707420746f20646573637269626520612075"
            "7365722063726564656e7469616c207468617420646f6573206e6f742065786973743a20010000"
        ),
    ),
    (
        users("a", "a"),
        (
            "000000010000000000000001020261005c5143616e6e6f7420646573637269626520534352414d20"
            "63726564656e7469616c7320666f72207468652073616d65207573657220747769636520696e2061"
            "2073696e676c6520726571756573743a2061010000"
        ),
    ),
]


@pytest.mark.parametrize(("request_", "answer"), BYTES)
async def test_answers_are_apache_kafkas(request_: Any, answer: str, home: Running) -> None:
    """To the byte, correlation id 1 included."""
    caller = await home.call()
    await caller.client.send(caller.frame(request_))

    assert (await caller.client.receive()).hex() == answer


async def test_unknown_elements_of_acls_end_the_connection(home: Running) -> None:
    """No client sends them."""
    caller = await home.call()
    await caller.client.send(caller.frame(acls(3, 0)))

    assert await caller.client.is_closed()


async def test_credentials_are_stored_whoever_asks(home: Running) -> None:
    """Nobody is refused without an authorizer, nor a password of any length, as with Kafka."""
    wanted = request(
        51,
        0,
        deletions=[
            {"name": name, "mechanism": kind} for name, kind in (("b", 1), ("", 1), ("c", 9))
        ],
        upsertions=[upsert("a", b"short"), upsert("d", bytes(32)), upsert("d", bytes(32))],
    )
    caller = await home.call()
    results = (await caller.ask(wanted)).results
    described = (await caller.ask(users("a", "d"))).results

    assert {each.user: (each.error_code, each.error_message) for each in results} == {
        "a": (ErrorCode.none, None),
        "b": (
            ErrorCode.resource_not_found,
            "Attempt to delete a user credential that does not exist",
        ),
        "": (ErrorCode.unacceptable_credential, "Username must not be empty"),
        "c": (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        "d": (
            ErrorCode.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        ),
    }
    assert [(each.user, each.error_code) for each in described] == [
        ("a", ErrorCode.none),
        ("d", ErrorCode.resource_not_found),
    ]


async def test_a_credential_is_deleted_once(home: Running) -> None:
    """Of two deletions side by side the second is told that it is gone, as by Kafka."""
    gone = request(51, 0, deletions=[{"name": "a", "mechanism": 1}])
    first, second = await home.call(), await home.call()
    await first.ask(request(51, 0, upsertions=[upsert("a", bytes(32))]))
    answers = await asyncio.gather(first.ask(gone), second.ask(gone))

    assert sorted(each.results[0].error_code for each in answers) == [
        ErrorCode.none,
        ErrorCode.resource_not_found,
    ]
