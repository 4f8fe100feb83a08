"""`siltstone users` makes the first users without a broker."""

import base64
import hashlib
import io
import json
from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.broker.security.scram import MECHANISMS, make_verifier, proves
from siltstone.broker.security.scram_text import parse_scram
from siltstone.broker.security.users import FILE_NAME, UserStore
from siltstone.storage.directory.lock import DirectoryLock

SALT = b"0123456789abcdef"
SALT_TEXT = "MDEyMzQ1Njc4OWFiY2RlZg=="


def users(folder: Path, *arguments: str) -> int:
    """Run the command."""
    return main(["users", "--set", f"log.dirs={folder}", *arguments])


def read(folder: Path) -> UserStore:
    """Return what a broker would read."""
    store = UserStore(folder)
    store.load()
    return store


def test_users_are_made_as_kafka_storage_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that does not exist yet; the output names no secret."""
    folder = tmp_path / "new" / "data"
    assert not users(
        folder,
        "--add-scram",
        "SCRAM-SHA-256=[name=alice,iterations=8192,password=alice-secret]",
        "--add-scram",
        'SCRAM-SHA-512=[name="alice",password="a,b=c"]',
    )
    own = read(folder).credentials["alice"]

    assert capsys.readouterr().out == "alice: SCRAM-SHA-256 (8192), SCRAM-SHA-512 (4096)\n"
    assert proves(MECHANISMS["SCRAM-SHA-256"], own["SCRAM-SHA-256"], "alice-secret")
    assert proves(MECHANISMS["SCRAM-SHA-512"], own["SCRAM-SHA-512"], "a,b=c")
    assert (folder / FILE_NAME).stat().st_mode & 0o7777 == 0o600


def test_a_password_from_standard_input_is_for_every_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No other user of the machine sees it in a list of processes. Removing takes them all."""
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\nother\n"))
    assert not users(tmp_path, "--add", "bob", "--add", "carol")
    assert set(read(tmp_path).credentials["bob"]) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert not users(tmp_path, "--remove", "bob")

    assert set(read(tmp_path).credentials) == {"carol"}
    assert "s3cret" not in capsys.readouterr().out


def test_who_there_is_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names and mechanisms, and no secret; nobody is a sentence, too."""
    assert not users(tmp_path)
    assert capsys.readouterr().out == "there are no users\n"
    assert not users(tmp_path, "--json")
    assert json.loads(capsys.readouterr().out) == {"users": []}

    scram = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    assert not users(tmp_path, "--add-scram", scram, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "users": [{"name": "alice", "mechanisms": [{"name": "SCRAM-SHA-256", "iterations": 4096}]}]
    }


def test_all_changes_are_made_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault in the second leaves the first undone."""
    good = "SCRAM-SHA-256=[name=alice,password=x]"

    assert users(tmp_path, "--add-scram", good, "--add-scram", "SCRAM-SHA-1=[]") == 1
    assert users(tmp_path, "--remove", "nobody") == 1
    assert "there is no user nobody to remove" in capsys.readouterr().err
    assert read(tmp_path).credentials == {}


def test_a_running_broker_keeps_its_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would not see the change, and write over it. They can be looked at."""
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    try:
        code = users(tmp_path, "--add-scram", "SCRAM-SHA-256=[name=alice,password=x]")
        shown = users(tmp_path)
    finally:
        lock.release()

    assert (code, shown) == (1, 0)
    assert "or name the running broker by --bootstrap-server" in capsys.readouterr().err


def test_a_salted_password_is_taken_with_its_salt() -> None:
    """As from another cluster: the password itself is never here."""
    salted = hashlib.pbkdf2_hmac("sha256", b"pw", SALT, 4096)
    text = base64.b64encode(salted).decode()
    user = parse_scram(f"SCRAM-SHA-256=[name=a,salt={SALT_TEXT},saltedpassword={text}]")

    assert user.verifier == make_verifier(MECHANISMS["SCRAM-SHA-256"], "pw", salt=SALT)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a user is written as"),
        ("SCRAM-SHA-1=[name=a,password=hush]", "a user is written as"),
        ("SCRAM-SHA-256=[password=hush]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "give either password or saltedpassword for a"),
        ("SCRAM-SHA-256=[name=a,password=]", "the password of a is empty"),
        ("SCRAM-SHA-256=[name=a,password=hush,saltedpassword=hush]", "give either"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aHVzaA==]", "needs the salt"),
        (f"SCRAM-SHA-256=[name=a,salt={SALT_TEXT},saltedpassword=aHVzaA==]", "has not 32 bytes"),
        ("SCRAM-SHA-256=[name=a,salt=hush!,password=hush]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,iterations=4095,password=hush]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,iterations=16385,password=hush]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,iterations=x,password=hush]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hush,hush]", "stands name=value"),
        ("SCRAM-SHA-256=[name=a,password=hush,name=b]", "name is given twice"),
    ],
)
def test_a_text_that_is_no_user_is_refused_and_not_quoted(text: str, fault: str) -> None:
    """The fault is in one sentence, without the password."""
    with pytest.raises(ValueError, match=fault) as caught:
        parse_scram(text)

    assert "hush" not in str(caught.value)
