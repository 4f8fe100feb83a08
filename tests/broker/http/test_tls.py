"""The HTTP port over TLS: its pages, its users, and the commands that ask it."""

import asyncio
import base64
import json
import ssl
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.error import HTTPError

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.http import port
from siltstone.broker.http.port import CertificateNote
from siltstone.broker.net.exposed import find_exposed
from siltstone.broker.net.tls.contexts import Endpoint
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from siltstone.config.load import load
from siltstone.pipeline.client.pins import find_control, topics
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.storage import files
from tests.support.authority import Authority, Pair
from tests.support.running import Running, running
from tests.support.tls_clients import trusting
from tests.support.waiting import give_turns_until


def sets(server: Pair, *more: str) -> tuple[str, ...]:
    """Return the settings of a broker whose HTTP port encrypts."""
    own = f"listener.name.http.ssl.keystore.location={server.store}"
    return ("http.security.protocol=SSL", own, *more)


def address_of(folder: Path) -> str:
    """Return what the broker has noted of its HTTP port."""
    return (folder / files.CONTROL_ADDRESS).read_text().strip()


def get(
    url: str, context: ssl.SSLContext, login: str = "", token: str = ""
) -> tuple[int, bytes, str]:
    """Return status, body and the kind of login that is asked for."""
    request = urllib.request.Request(url)  # https, as the test has it
    if login:
        packed = base64.b64encode(login.encode()).decode()
        request.add_header("Authorization", f"Basic {packed}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, answer.read(), ""
    except HTTPError as error:
        with error:
            return error.code, error.read(), error.headers.get("WWW-Authenticate", "")


async def test_pages_are_encrypted(tmp_path: Path, server: Pair, authority: Authority) -> None:
    """Small ones and the metrics, one after the other and many at once."""
    async with running(tmp_path, *sets(server)) as home:
        for number in range(40):
            await home.topics.create(f"topic-{number}", 20, {})
        url = address_of(tmp_path)
        assert url.startswith("https://")
        context = trusting(authority)

        status, body, _ = await asyncio.to_thread(get, f"{url}/metrics", context)
        answers = await asyncio.gather(
            *(asyncio.to_thread(get, f"{url}/readyz", context) for _ in range(12))
        )

        assert status == 200
        assert len(body) > 200_000
        assert b"siltstone_certificate_expiry_timestamp_seconds" in body
        assert {each[0] for each in answers} == {200}
        status, body, _ = await asyncio.to_thread(get, f"{url}/nothing", context)
        assert status == 404


async def test_a_browser_without_tls_is_closed(
    tmp_path: Path, server: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """With a line that names the port."""
    async with running(tmp_path, *sets(server)):
        host, _, port = address_of(tmp_path).removeprefix("https://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")

        assert await reader.read() == b""
        writer.close()
    assert any("listener=http" in each.getMessage() for each in caplog.records)


async def test_users_read_what_is_not_on_loopback(
    tmp_path: Path, server: Pair, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """By the password of any mechanism, or with the control token; nobody else does."""
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    own = {PLAIN: make_verifier(PLAIN_HASH, "secret")}
    UserStore(tmp_path).write(
        {"alice": own, "bob": {mechanism.name: make_verifier(mechanism, "other")}}
    )
    more = ("http.security.protocol=SASL_SSL", "http.listener=0.0.0.0:0")
    async with running(tmp_path, *sets(server), *more):
        port = address_of(tmp_path).rpartition(":")[2]
        url = f"https://127.0.0.1:{port}/metrics"
        context = trusting(authority)
        token = (tmp_path / files.CONTROL_TOKEN).read_text().strip()

        for login in ("alice:secret", "bob:other"):
            assert (await asyncio.to_thread(get, url, context, login))[0] == 200
        assert (await asyncio.to_thread(get, url, context, "", token))[0] == 200
        for login in ("", "alice:other", "bob:secret", "eve:secret", "alice", "alice:"):
            status, body, asked = await asyncio.to_thread(get, url, context, login)
            assert status == 401, login
            assert asked.startswith("Basic")
            assert b"siltstone_" not in body
    failed = [each for each in caplog.records if "login failed" in each.getMessage()]
    assert failed
    assert not any("secret" in each.getMessage() for each in caplog.records)


async def test_everybody_reads_on_loopback(
    tmp_path: Path, server: Pair, authority: Authority
) -> None:
    """A client on the machine needs no name to read, and still may not change anything."""
    async with running(tmp_path, *sets(server), "http.security.protocol=SASL_SSL"):
        url = address_of(tmp_path)
        assert (await asyncio.to_thread(get, f"{url}/metrics", trusting(authority)))[0] == 200


async def test_commands_trust_what_the_broker_has_noted(
    tmp_path: Path, server: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same settings they need no other; a stranger in its place is not believed."""
    stranger = Authority(tmp_path / "stranger").issue("server")
    folder = tmp_path / "data"
    async with running(folder, *sets(server), "http.listener=127.0.0.1:0"):
        port = address_of(folder).rpartition(":")[2]
        given = [f"log.dirs={folder}", *sets(server), f"http.listener=127.0.0.1:{port}"]
        options = [word for each in given for word in ("--set", each)]

        note = folder / files.CONTROL_CERTIFICATE
        first = note.stat().st_ino
        assert await asyncio.to_thread(main, ["health", *options]) == 0
        assert await asyncio.to_thread(main, ["reload", "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out.partition("\n")[2])["now"] == []
        await give_turns_until(lambda: note.stat().st_ino != first, "a note after the reload")

        note.write_bytes(stranger.certificate.read_bytes())
        assert await asyncio.to_thread(main, ["health", *options]) == 1
        assert "its certificate is not trusted" in capsys.readouterr().err

        plain = [f"log.dirs={tmp_path / 'none'}", f"http.listener=127.0.0.1:{port}"]
        options = [word for each in plain for word in ("--set", each)]
        assert await asyncio.to_thread(main, ["reload", *options]) == 1
        assert f"127.0.0.1:{port} speaks TLS; set http.security" in capsys.readouterr().err


async def test_commands_trust_authorities_that_are_named(
    tmp_path: Path,
    server: Pair,
    authority: Authority,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By --ca or the environment: a broker on another machine leaves no note here."""
    monkeypatch.setenv("SILTSTONE_CA", str(tmp_path / "none.pem"))
    folder = tmp_path / "data"
    async with running(folder, *sets(server)):
        port = address_of(folder).rpartition(":")[2]
        given = [f"log.dirs={tmp_path}", *sets(server), f"http.listener=127.0.0.1:{port}"]
        options = [word for each in given for word in ("--set", each)]

        assert await asyncio.to_thread(main, ["health", *options]) == 1
        assert "none.pem has no certificates of authorities" in capsys.readouterr().err
        named = ["--ca", str(authority.certificate)]
        assert await asyncio.to_thread(main, ["health", *options, *named]) == 0


async def test_the_pipeline_reaches_the_control_channel(
    tmp_path: Path, server: Pair, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the note in the folder, or by the address and the authority that it is given."""
    async with running(tmp_path, *sets(server)) as home:
        await home.topics.create("t", 1, {})
        noted = find_control(tmp_path)
        assert await asyncio.to_thread(topics, noted) == ["t"]

        monkeypatch.setenv("SILTSTONE_CA", str(authority.certificate))
        given = find_control(tmp_path, address_of(tmp_path).replace("127.0.0.1", "localhost"))
        assert await asyncio.to_thread(topics, given) == ["t"]
        plain = find_control(tmp_path, address_of(tmp_path).removeprefix("https://"))
        with pytest.raises(SourceUnavailable, match="no broker answers"):
            await asyncio.to_thread(topics, plain)


async def test_a_reload_is_noted(tmp_path: Path, authority: Authority) -> None:
    """So that commands go on."""
    store = tmp_path / "store.pem"
    store.write_bytes(authority.issue("first").store.read_bytes())
    pair = Pair(store, store, store)
    folder = tmp_path / "data"
    async with running(folder, *sets(pair)) as home:
        before = (folder / files.CONTROL_CERTIFICATE).read_bytes()
        store.write_bytes(authority.issue("second").store.read_bytes())
        await home.broker.reload()
        noted = folder / files.CONTROL_CERTIFICATE
        await give_turns_until(lambda: noted.read_bytes() != before, "a noted certificate")
        control = find_control(folder)
        assert await asyncio.to_thread(topics, control) == []


async def test_the_newest_certificate_is_noted_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the threads of two reloads take for it."""
    io = IoThreads(2)
    note = CertificateNote(io, tmp_path)
    noted: list[str | None] = []
    newer = threading.Event()

    def write(_folder: Path, pem: str | None) -> None:
        if pem == "first":
            newer.wait(0.2)
        noted.append(pem)
        newer.set()

    monkeypatch.setattr(port, "note_certificate", write)
    for pem in ("first", "second"):
        note.renew("http", cast("Endpoint", SimpleNamespace(pem=pem)))
    await note.close()
    io.close()

    assert noted == ["first", "second"]


def test_check_reads_certificates(
    tmp_path: Path, server: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    """`siltstone check` tells what would stop the start."""
    fine = [word for each in sets(server) for word in ("--set", each)]
    lost = [
        word for each in sets(Pair(server.key, server.key, server.key)) for word in ("--set", each)
    ]

    assert main(["check", *fine]) == 0
    assert main(["check", *lost]) == 1
    assert "the listener http cannot encrypt: " in capsys.readouterr().err


async def test_the_probe_needs_no_certificate(tmp_path: Path, server: Pair) -> None:
    """A broker whose only listener wants certificates is ready all the same."""
    more = (
        "listeners=SSL://127.0.0.1:0",
        f"ssl.keystore.location={server.store}",
        f"ssl.truststore.location={server.certificate}",
        "ssl.client.auth=required",
    )
    async with running(tmp_path, *more) as home:
        await home.probe.round_trip()
        assert isinstance(home, Running)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ()),
        (["listeners=PLAINTEXT://0.0.0.0:9092"], ("no encryption and no logins",)),
        (["listeners=PLAINTEXT://:9092", "http.listener=:9464"], ("listener P", "no encryption f")),
        (["http.listener=:9464", "http.anonymous.reads=true"], ("no encryption and no logins",)),
        (["http.listener=10.0.0.1:9464", "http.security.protocol=SASL_PLAINTEXT"], ("no encr",)),
    ],
)
def test_what_is_open_is_said(given: list[str], words: tuple[str, ...]) -> None:
    """With the listener's name and what to set."""
    told = ["advertised.listeners=PLAINTEXT://localhost:9092"]

    found = list(find_exposed(load(None, {}, [*told, *given]).server()))

    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert word in sentence
        assert "; set " in sentence
