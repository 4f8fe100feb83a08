"""Where keys are read: files, and https URLs that are slow, large, moved or somebody else's."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siltstone.broker.security.oauth import key_sources
from siltstone.broker.security.oauth.key_sources import (
    MAX_BYTES,
    SourceError,
    make_reader,
    read_file,
)
from tests.support.authority import Authority
from tests.support.tokens import settings


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that has signed a certificate for localhost."""
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    return made


@contextmanager
def serving(
    authority: Authority, answer: Callable[[ssl.SSLSocket], None], asked: list[bytes] | None = None
) -> Iterator[str]:
    """Yield the URL of a server that reads a request and then does as it is told, once."""
    requests = [] if asked is None else asked
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = authority.certificate.parent
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            channel, _ = listening.accept()
        except OSError:
            return
        with channel:
            try:
                with context.wrap_socket(channel, server_side=True) as encrypted:
                    requests.append(encrypted.recv(65_536))
                    answer(encrypted)
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"https://localhost:{listening.getsockname()[1]}/keys?tenant=1"
    finally:
        listening.close()
        thread.join()


def send(data: bytes) -> Callable[[ssl.SSLSocket], None]:
    """Return what sends bytes."""
    return lambda channel: channel.sendall(data)


def read(url: str, authority: Authority) -> bytes:
    """Return what an URL answers."""
    return make_reader(settings(url, authorities=str(authority.certificate)))()


def test_an_url_is_read(authority: Authority) -> None:
    """With its path and its query."""
    asked: list[bytes] = []
    answer = send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    with serving(authority, answer, asked) as url:
        assert read(url, authority) == b"{}"

    assert asked[0].startswith(b"GET /keys?tenant=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\n\r\n", "it answers 302"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers 404"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_BYTES + 1), "more than 1048576 bytes"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + b" " * 0x200000,
            "more than 1048576 bytes",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "it does not answer"),
        (b"no HTTP at all\r\n\r\n", "it does not answer: BadStatusLine"),
        (b"", "it does not answer: RemoteDisconnected"),
    ],
)
def test_what_is_no_answer(authority: Authority, answer: bytes, fault: str) -> None:
    """A redirect is not followed, and no more is read than keys can have."""
    with serving(authority, send(answer)) as url, pytest.raises(SourceError, match=fault):
        read(url, authority)


def test_an_answer_that_drips_is_given_up(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each byte comes in time, all of it has to."""
    monkeypatch.setattr(key_sources, "ANSWER_SECONDS", 0.2)
    over = threading.Event()

    def drip(channel: ssl.SSLSocket) -> None:
        channel.sendall(b"HTTP/1.1 200 OK\r\n")
        while not over.wait(0.01):
            channel.sendall(b"X")

    with serving(authority, drip) as url:
        try:
            with pytest.raises(SourceError, match="takes too long"):
                read(url, authority)
        finally:
            over.set()


def test_a_stranger_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    """The authority must be one of the listener or the system; the log says how to name it."""
    other = Authority(tmp_path / "other")
    fault = (
        r"^its certificate is not trusted \(.+\); name a PEM file of its authority by "
        r"ssl\.truststore\.location in sasl\.jaas\.config$"
    )
    for authorities in (str(other.certificate), None):
        with serving(authority, send(b"")) as url, pytest.raises(SourceError, match=fault):
            make_reader(settings(url, authorities=authorities))()


def test_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    """Stop the start with a sentence."""
    (tmp_path / "empty.pem").write_text("")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(SourceError, match="cannot be read as PEM"):
            make_reader(settings("https://localhost/", authorities=str(tmp_path / name)))


def test_a_file_is_read(tmp_path: Path) -> None:
    """By its URL, with what is escaped there."""
    file = tmp_path / "our keys.json"
    file.write_bytes(b"{}")
    file.chmod(0o644)

    assert make_reader(settings(file.as_uri()))() == b"{}"


def test_files_that_are_not_read(tmp_path: Path) -> None:
    """One that is missing, too large, no file, or everybody's to change."""
    large, shared, pipe = tmp_path / "large", tmp_path / "shared", tmp_path / "pipe"
    large.write_bytes(b" " * (MAX_BYTES + 1))
    large.chmod(0o600)
    shared.write_bytes(b"{}")
    shared.chmod(0o666)
    os.mkfifo(pipe)

    for path, fault in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "no regular file"),
        (pipe, "no regular file"),
        (large, "more than 1048576 bytes"),
        (shared, "everybody may write it"),
    ):
        with pytest.raises(SourceError, match=fault):
            read_file(str(path))
    with pytest.raises(SourceError, match="zero byte"):
        read_file("/a\0b")
