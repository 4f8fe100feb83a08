"""The file of the users: private, whole, and refused when it is not."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.private_file import PrivateFileError
from siltstone.broker.security.scram import SHA_256, make_verifier
from siltstone.broker.security.users import FILE_NAME, Credentials, UserStore, UserWriter, remove
from siltstone.protocol.errors import KafkaStorageError

ALICE = make_verifier(SHA_256, "secret")
BOB = make_verifier(PLAIN_HASH, "other")


def loaded(folder: Path) -> UserStore:
    """Return the store as the next start reads it."""
    store = UserStore(folder)
    store.load()
    return store


def test_users_are_there_after_a_start(tmp_path: Path) -> None:
    """And the salts of users that do not exist are the same as before."""
    store = loaded(tmp_path)
    store.write({"alice": {"SCRAM-SHA-256": ALICE}, "bób": {PLAIN: BOB}})
    again = loaded(tmp_path)

    assert again.credentials == store.credentials
    assert again.find("SCRAM-SHA-256", "alice") == (ALICE, True)
    assert again.find(PLAIN, "bób") == (BOB, True)
    assert again.find(PLAIN, "alice") == store.find(PLAIN, "alice")
    assert again.find(PLAIN, "alice")[1] is False


@pytest.mark.parametrize("is_stopped_between", [False, True])
def test_who_is_not_there_is_not_told_by_users_that_come(
    tmp_path: Path, *, is_stopped_between: bool
) -> None:
    """Answers to strangers stay, over a start too, whatever users come and go."""
    alice = {"alice": {"SCRAM-SHA-256": ALICE}}
    rare = {"rare": {"SCRAM-SHA-256": make_verifier(SHA_256, "secret", iterations=9_999)}}
    names = ["alice", *(f"{number}" for number in range(50))]
    store = loaded(tmp_path)
    told = []
    for users in (alice, alice | rare, rare | alice, alice):
        store.write(users)
        told.append([store.find("SCRAM-SHA-256", each) for each in names])
        if is_stopped_between:
            store.keep()
            store = loaded(tmp_path)

    assert told[0] == told[1] == told[2] == told[3]
    assert {each[0].iterations for each in told[0]} == {4096}


def test_a_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It does not say yet what absent users look like."""
    store = loaded(tmp_path)
    store.write({"alice": {"SCRAM-SHA-256": ALICE}})
    content = json.loads(store.path.read_bytes())
    del content["absent"], content["crc32c"]
    store.path.write_text(json.dumps(content))

    assert loaded(tmp_path).find("SCRAM-SHA-256", "bob") == store.find("SCRAM-SHA-256", "bob")


def test_more_users_than_a_start_reads_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A salt of megabytes would keep the broker from its next start."""
    store = loaded(tmp_path)
    store.write({"alice": {PLAIN: BOB}})
    monkeypatch.setattr("siltstone.broker.security.users.MAX_BYTES", 1000)
    with pytest.raises(OSError, match="more than 1000 bytes"):
        store.write({"alice": {PLAIN: BOB._replace(salt=bytes(1000))}})

    assert store.credentials == loaded(tmp_path).credentials == {"alice": {PLAIN: BOB}}


def test_no_password_is_in_the_file_and_nobody_else_reads_it(tmp_path: Path) -> None:
    """Whatever the umask, and although a crash left another file in the way."""
    left = tmp_path / f"{FILE_NAME}.tmp"
    left.touch(mode=0o666)
    old = os.umask(0)
    try:
        loaded(tmp_path).write({"alice": {PLAIN: make_verifier(PLAIN_HASH, "swordfish")}})
    finally:
        os.umask(old)
    path = tmp_path / FILE_NAME

    assert path.stat().st_mode & 0o7777 == 0o600
    assert b"swordfish" not in path.read_bytes()
    assert not left.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """They may have read it, or written themselves into it."""
    loaded(tmp_path).write({})
    path = tmp_path / FILE_NAME
    path.chmod(mode)

    with pytest.raises(PrivateFileError, match=rf"{path} has the rights 0{mode:o}.*chmod 0600"):
        loaded(tmp_path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A link leads wherever somebody likes."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(mode=0o600)
    path = tmp_path / FILE_NAME
    path.symlink_to(elsewhere)
    with pytest.raises(PrivateFileError, match="cannot be read"):
        loaded(tmp_path)
    path.unlink()
    path.mkdir(mode=0o700)

    with pytest.raises(PrivateFileError, match="is no regular file"):
        loaded(tmp_path)


def spoil(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """Return what changes the parsed content of a file."""

    def spoiled(content: bytes) -> bytes:
        parsed = json.loads(content)
        change(parsed)
        return json.dumps(parsed).encode()

    return spoiled


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-9],
        lambda _: b"",
        lambda _: b"[]",
        lambda _: b"\xff",
        lambda content: content.replace(b'"users": {', b'"users": {}, "users": {'),
        lambda _: b"[" * 200_000,
        spoil(lambda parsed: parsed.update(version=2)),
        spoil(lambda parsed: parsed.update(secret="AAAA")),
        spoil(lambda parsed: parsed.update(users=[])),
        spoil(lambda parsed: parsed["users"]["a"]["SCRAM-SHA-256"].update(iterations=0)),  # type: ignore[index]
        spoil(lambda parsed: parsed["users"]["a"]["SCRAM-SHA-256"].update(iterations=99999)),  # type: ignore[index]
        spoil(lambda parsed: parsed["users"]["a"]["SCRAM-SHA-256"].update(stored_key="")),  # type: ignore[index]
        spoil(lambda parsed: parsed["users"]["a"].update(NONE={})),  # type: ignore[index]
        spoil(lambda parsed: parsed["users"].update(a=7)),  # type: ignore[attr-defined]
        spoil(lambda parsed: parsed["absent"]["SCRAM-SHA-256"].update(asked="")),  # type: ignore[index]
        spoil(lambda parsed: parsed["absent"]["SCRAM-SHA-256"].update(forms=[[0, 1]])),  # type: ignore[index]
        spoil(lambda parsed: parsed["absent"]["SCRAM-SHA-256"].update(forms=[["a", 1]])),  # type: ignore[index]
    ],
)
def test_a_damaged_file_is_refused_and_not_quoted(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """Nobody is let in by half a file, and no part of it gets into a log."""
    loaded(tmp_path).write({"a": {"SCRAM-SHA-256": ALICE}})
    path = tmp_path / FILE_NAME
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(PrivateFileError) as caught:
        loaded(tmp_path)

    assert str(caught.value).startswith(f"{path} is damaged; put back a copy")


async def test_changes_come_one_after_the_other(tmp_path: Path) -> None:
    """Each finds what the one before made; one that cannot be written has not happened."""
    store = loaded(tmp_path)
    io = IoThreads(1)
    writer = UserWriter(store, io)

    def put(credentials: Credentials) -> None:
        credentials[f"user-{len(credentials)}"] = {"SCRAM-SHA-256": ALICE}

    await asyncio.gather(writer.change(put), writer.change(put))
    before = store.credentials
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        await writer.change(put)
    io.close()

    assert store.credentials is before
    assert set(before) == {"user-0", "user-1"}


def test_a_user_without_credentials_is_none() -> None:
    """The last one takes the user with it."""
    credentials: Credentials = {"a": {PLAIN: BOB, "SCRAM-SHA-256": ALICE}}
    remove(credentials, "a", PLAIN)
    assert credentials == {"a": {"SCRAM-SHA-256": ALICE}}
    remove(credentials, "a", "SCRAM-SHA-256")
    remove(credentials, "b", PLAIN)

    assert credentials == {}
