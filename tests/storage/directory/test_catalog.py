"""The catalogue: what is written is read, and what cannot be understood stops a start."""

import errno
import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.protocol.names import uuid_text
from siltstone.storage.directory.catalog import (
    FILE_NAME,
    Catalog,
    CatalogState,
    CatalogTopic,
    MalformedCatalog,
    decode,
    encode,
)
from siltstone.storage.directory.log_directory import LogDirError
from tests.support.faults import install

ORDERS = CatalogTopic(
    id=UUID(int=77), partitions=3, overrides={"retention.ms": "1000", "cleanup.policy": 'a"b'}
)
STATE = CatalogState(
    topics={"orders": ORDERS, "plain": CatalogTopic(id=UUID(int=78), partitions=1)},
    deleted=frozenset({UUID(int=79)}),
    cluster_configs={"message.max.bytes": "2000000"},
    broker_configs={"log.retention.ms": "5"},
    next_producer_id=3000,
    generation=12,
)
WRITTEN = re.sub(rb',\n "crc32c": .*', b"", encode(STATE))
"""The file as a person repairs it, without its checksum."""


def _with_topic_id(number: int) -> bytes:
    """Return the catalogue with another id of a topic."""
    before, after = uuid_text(ORDERS.id).encode(), uuid_text(UUID(int=number)).encode()
    return WRITTEN.replace(before, after)


@pytest.mark.parametrize("state", [STATE, CatalogState()])
def test_what_is_written_is_read(state: CatalogState) -> None:
    """Every field survives, quotes in values included."""
    assert decode(encode(state)) == state


def test_one_topic_is_one_line() -> None:
    """A person can read the file, and a diff of two shows the topics that changed."""
    lines = encode(STATE).decode().splitlines()

    assert sum('"partitions"' in line for line in lines) == len(STATE.topics)


@pytest.mark.parametrize(
    "setting", ["listener.name.lan.ssl.keystore.key", "listener.name.lan.ssl.key.password"]
)
def test_a_catalogue_with_a_secret_is_for_its_owner(tmp_path: Path, setting: str) -> None:
    """Anybody may read it otherwise, as logs; not while a key or a password is altered in it."""
    catalog = Catalog([tmp_path])
    catalog.write(STATE)
    assert catalog.path.stat().st_mode & 0o777 == 0o644

    secret = replace(STATE, broker_configs={setting: "hush"}, generation=13)
    catalog.write(secret)
    assert catalog.path.stat().st_mode & 0o777 == 0o600
    catalog.path.write_bytes(encode(STATE))
    catalog.path.chmod(0o644)
    catalog.put_back(secret)
    assert catalog.path.stat().st_mode & 0o777 == 0o600


def test_a_folder_without_a_catalogue_is_new(tmp_path: Path) -> None:
    """Nothing is known and nothing is wrong, even if the folder is still to be made."""
    catalog = Catalog([tmp_path / "not-yet"])
    catalog.load()

    assert not catalog.found
    assert catalog.state == CatalogState()


def test_the_newest_of_all_directories_counts(tmp_path: Path) -> None:
    """Another order of log.dirs keeps the topics."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, generation in ((first, 3), (second, 9)):
        folder.mkdir()
        Catalog([folder]).write(CatalogState(generation=generation))
    catalog = Catalog([first, second])
    catalog.load()

    assert catalog.state.generation == 9
    assert catalog.path.parent == first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "Expecting"),
        (b"[]", "no JSON object"),
        (
            b'{"version": 2}',
            "version is 2, this program knows 1; if a newer program wrote it, start that one again",
        ),
        (WRITTEN.replace(b'"partitions": 3', b'"partitions": "3"'), "topic orders"),
        (WRITTEN.replace(b'"partitions": 3', b'"partitions": true'), "topic orders"),
        (WRITTEN.replace(b'"generation"', b'"generatoin"'), "'generatoin', which this program"),
        (WRITTEN.replace(b'"2000000"', b"2000000"), "message.max.bytes"),
        (b"[" * 200_000, "nested too deep"),
        (WRITTEN.replace(b'"deleted"', b'"topics": {}, "deleted"'), "'topics' twice"),
        (WRITTEN.replace(b'"deleted": [', b'"deleted": [5, '), "deleted has what is not"),
        (WRITTEN.replace(b'"orders"', b'"../../orders"'), "'../../orders' cannot be"),
        (WRITTEN.replace(b'"orders"', b'"\\ud800"'), "cannot be a topic name"),
        (WRITTEN.replace(b'"partitions": 3', b'"partitions": 0'), "no partitions"),
        (WRITTEN.replace(b'"partitions": 3', b'"partitions": 1e99'), "topic orders"),
        (WRITTEN.replace(b'"partitions": 3', b'"partitions": 1000000000'), "topic orders"),
        (WRITTEN.replace(b": 3000", b": -1"), "next_producer_id is not from 0"),
        (WRITTEN.replace(b": 3000", b": 9223372036854775808"), "next_producer_id is not"),
        (WRITTEN.replace(b": 3000", b": NaN"), "NaN is no number"),
        (_with_topic_id(79), "topic orders exists and its id is among the deleted"),
    ],
)
def test_a_damaged_file_stops_the_start(tmp_path: Path, text: bytes, words: str) -> None:
    """Going on without it would lose settings such as retention.ms=-1, and then records."""
    (tmp_path / "siltstone-catalog.json").write_bytes(text)

    with pytest.raises(LogDirError, match=r"move it away") as caught:
        Catalog([tmp_path]).load()
    assert words in str(caught.value)


def test_every_cut_of_the_text_is_noticed() -> None:
    """No prefix of a catalogue is a catalogue."""
    text = encode(STATE).rstrip()
    for size in range(len(text)):
        with pytest.raises((MalformedCatalog, ValueError)):
            decode(text[:size])


@pytest.mark.parametrize(
    ("denied", "sentence"),
    [
        (["open"], "{file} cannot be read by this user"),
        (["open", "stat"], "log directory {folder} cannot be entered by this user"),
    ],
)
def test_what_the_rights_deny_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: list[str], sentence: str
) -> None:
    """The file, or the folder, in which it need not even exist."""
    Catalog([tmp_path]).write(STATE)
    disk = install(monkeypatch)
    for call in denied:
        disk.fail(call, errno.EACCES, FILE_NAME)
    expected = sentence.format(file=tmp_path / FILE_NAME, folder=tmp_path)
    with pytest.raises(LogDirError, match=re.escape(expected)):
        Catalog([tmp_path]).load()
