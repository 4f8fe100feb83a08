"""Rights to read the HTTP port where it is not on loopback, with users and without."""

import asyncio
import base64
import json
import ssl
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from siltstone.broker.commands.asking import reading_token
from siltstone.broker.security.acl import (
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import make_verifier
from siltstone.broker.security.users import UserStore
from siltstone.config.load import load
from siltstone.config.security import STANDARD_AUTHORIZER
from siltstone.protocol.names import CLUSTER_NAME
from siltstone.storage import files
from tests.support.authority import Authority
from tests.support.running import running

OPEN = "http.listener=0.0.0.0:0"
AUTHORIZER = f"authorizer.class.name={STANDARD_AUTHORIZER}"
HEALTH = ("/healthz", "/readyz")
PAGES = ("/", "/metrics", "/api/topics", "/api/settings", "/v1/status", "/v1/config", "/nothing")


def get(folder: Path, path: str, authorization: str = "") -> int:
    """Return the status of a page."""
    port = (folder / files.CONTROL_ADDRESS).read_text().strip().rpartition(":")[2]
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if authorization:
        request.add_header("Authorization", authorization)
    try:
        with urllib.request.urlopen(request) as answer:
            status: int = answer.status
            return status
    except HTTPError as error:
        with error:
            return error.code


async def statuses(folder: Path, paths: tuple[str, ...], authorization: str = "") -> set[int]:
    """Return the statuses of pages."""
    return {await asyncio.to_thread(get, folder, path, authorization) for path in paths}


def basic(user: str) -> str:
    """Return what a user says of itself."""
    return "Basic " + base64.b64encode(f"{user}:secret".encode()).decode()


async def test_strangers_read_whether_it_lives_and_nothing_else(tmp_path: Path) -> None:
    """Without users and without a word that everybody may read; the token opens all."""
    async with running(tmp_path, OPEN):
        token = (tmp_path / files.CONTROL_TOKEN).read_text().strip()

        assert await statuses(tmp_path, PAGES) == {403}
        assert await statuses(tmp_path, PAGES, "Bearer wrong") == {403}
        assert await statuses(tmp_path, PAGES[:-1], f"Bearer {token}") == {200}
        assert await statuses(tmp_path, HEALTH) == {200}


@pytest.mark.parametrize("sets", [(OPEN, "http.anonymous.reads=true"), ()])
async def test_everybody_reads_where_that_is_set_or_on_loopback(
    tmp_path: Path, sets: tuple[str, ...]
) -> None:
    """As a scrape in a container's network needs it."""
    async with running(tmp_path, *sets):
        assert await statuses(tmp_path, (*PAGES[:-1], *HEALTH)) == {200}


async def test_with_an_authorizer_users_need_a_right(tmp_path: Path) -> None:
    """DESCRIBE on the cluster: what is read is about all of it; a refusal is in the audit log."""
    folder = tmp_path / "data"
    folder.mkdir()
    own = {PLAIN: make_verifier(PLAIN_HASH, "secret")}
    UserStore(folder).write({"admin": own, "bob": own})
    async with running(
        folder,
        OPEN,
        "http.security.protocol=SASL_PLAINTEXT",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:admin",
        f"audit.log.file={tmp_path / 'audit.log'}",
    ) as home:
        assert await statuses(folder, PAGES[:-1], basic("admin")) == {200}
        assert await statuses(folder, PAGES, basic("bob")) == {403}
        assert await statuses(folder, PAGES) == {401}
        assert await statuses(folder, HEALTH, basic("bob")) == {200}

        cluster = Pattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
        acl = Acl(cluster, "User:bob", "127.0.0.1", Operation.DESCRIBE, Permission.ALLOW)
        acls = home.broker._security.acls
        assert acls is not None
        await acls.add([acl])
        assert await statuses(folder, PAGES[:-1], basic("bob")) == {200}

    lines = [json.loads(each) for each in (tmp_path / "audit.log").read_text().splitlines()]
    refused = [each for each in lines if each["event"] == "refused"]
    assert {(each["principal"], each["operation"], each["resource"]) for each in refused} == {
        ("User:bob", "DESCRIBE", "CLUSTER")
    }


@pytest.mark.parametrize(("sets", "opened"), [((), 403), (("http.remote.records=true",), 200)])
async def test_records_are_for_those_that_may_read_them(
    tmp_path: Path, sets: tuple[str, ...], opened: int
) -> None:
    """Not off loopback unless that is set; then by READ on the topic; the token opens them."""
    folder = tmp_path / "data"
    folder.mkdir()
    own = {PLAIN: make_verifier(PLAIN_HASH, "secret")}
    UserStore(folder).write({"admin": own, "bob": own})
    login = ("http.security.protocol=SASL_PLAINTEXT", AUTHORIZER, "super.users=User:admin")
    records = ("/api/records?topic=t",)
    async with running(folder, OPEN, *login, *sets) as home:
        await home.topics.create("t", 1, {})
        acls = home.broker._security.acls
        assert acls is not None
        cluster = Pattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
        await acls.add([allow(cluster, Operation.DESCRIBE)])
        token = (folder / files.CONTROL_TOKEN).read_text().strip()

        assert await statuses(folder, records, basic("admin")) == {opened}
        assert await statuses(folder, records, basic("bob")) == {403}
        assert await statuses(folder, records, f"Bearer {token}") == {200}
        assert await statuses(folder, records) == {401}

        await acls.add([allow(Pattern(ResourceType.TOPIC, PatternType.LITERAL, "t"))])
        assert await statuses(folder, records, basic("bob")) == {opened}


def allow(pattern: Pattern, operation: Operation = Operation.READ) -> Acl:
    """Return the rule that lets bob do something."""
    return Acl(pattern, "User:bob", "*", operation, Permission.ALLOW)


@pytest.mark.parametrize(
    ("sets", "status"),
    [
        ((), 200),
        ((AUTHORIZER,), 403),
        ((AUTHORIZER, "allow.everyone.if.no.acl.found=true"), 200),
        (("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN"), 403),
        ((OPEN, "http.anonymous.reads=true"), 403),
        ((OPEN, "http.anonymous.reads=true", "http.remote.records=true"), 200),
        ((OPEN, "http.anonymous.reads=true", "http.remote.records=true", AUTHORIZER), 403),
    ],
)
async def test_strangers_see_the_records_that_they_may_fetch(
    tmp_path: Path, sets: tuple[str, ...], status: int
) -> None:
    """Without a name one is ANONYMOUS, and only where a listener takes clients without one."""
    async with running(tmp_path, *sets) as home:
        await home.topics.create("t", 1, {})
        token = (tmp_path / files.CONTROL_TOKEN).read_text().strip()
        path = "/api/records?topic=t"

        assert await statuses(tmp_path, (path,)) == {status}
        assert await statuses(tmp_path, (path,), basic("admin")) == {status}
        assert await statuses(tmp_path, (path,), f"Bearer {token}") == {200}


def get_as(folder: Path, path: str, context: ssl.SSLContext, token: str = "") -> int:
    """Return the status of a page for a client that shows a certificate."""
    port = (folder / files.CONTROL_ADDRESS).read_text().strip().rpartition(":")[2]
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            status: int = answer.status
            return status
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ((OPEN, AUTHORIZER), [403, 200, 200, 200, 403]),
        ((OPEN,), [200, 200, 200, 200, 403]),
        ((AUTHORIZER,), [200] * 5),
        ((OPEN, AUTHORIZER, "http.anonymous.reads=true"), [200] * 5),
    ],
)
async def test_the_principal_of_a_certificate_needs_the_same_right(
    tmp_path: Path, sets: tuple[str, ...], expected: list[int]
) -> None:
    """By the name that the rules make of it; without one it is a stranger; health is for all."""
    authority = Authority(tmp_path / "authority")
    server = authority.issue("server")
    folder = tmp_path / "data"
    own = (
        "http.security.protocol=SSL",
        f"listener.name.http.ssl.keystore.location={server.store}",
        f"listener.name.http.ssl.truststore.location={authority.certificate}",
        "listener.name.http.ssl.client.auth=requested",
        "listener.name.http.ssl.principal.mapping.rules=RULE:^CN=(.*?)$/$1/",
        *(("super.users=User:root",) if AUTHORIZER in sets else ()),
    )
    contexts = {"nobody": ssl.create_default_context(cafile=authority.certificate)}
    for name in ("root", "bob"):
        pair = authority.issue(name)
        contexts[name] = ssl.create_default_context(cafile=authority.certificate)
        contexts[name].load_cert_chain(pair.certificate, pair.key)
    async with running(folder, *own, *sets):
        token = (folder / files.CONTROL_TOKEN).read_text().strip()
        asked = [("bob", ""), ("bob", token), ("root", "")]
        told = [
            await asyncio.to_thread(get_as, folder, "/metrics", contexts[who], brought)
            for who, brought in asked
        ]
        for path, who in (("/readyz", "bob"), ("/metrics", "nobody")):
            told.append(await asyncio.to_thread(get_as, folder, path, contexts[who]))

    assert told == expected


@pytest.mark.parametrize(
    ("sets", "is_brought"),
    [
        (("http.listener=127.0.0.1:1",), False),
        (("http.listener=0.0.0.0:1", "http.anonymous.reads=true"), False),
        (("http.listener=0.0.0.0:1",), True),
        (("http.listener=0.0.0.0:1", "http.security.protocol=SASL_PLAINTEXT"), True),
    ],
)
def test_commands_bring_the_token_where_it_is_asked_for(
    tmp_path: Path, sets: tuple[str, ...], is_brought: bool
) -> None:
    """And nowhere else."""
    (tmp_path / files.CONTROL_TOKEN).write_text("a-token\n")

    token = reading_token(load(None, {}, [f"log.dirs={tmp_path}", *sets]))

    assert bool(token) is is_brought
