"""The file of the quotas: whole, private, and in force only when it is written."""

import asyncio
from pathlib import Path

import pytest

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.private_file import PrivateFileError
from siltstone.broker.security.quotas.book import Quotas, Values
from siltstone.broker.security.quotas.store import FILE_NAME, QuotaWriter, load_quotas
from siltstone.protocol.errors import KafkaStorageError
from tests.support.waiting import begin_and_go

VALUES: Values = {
    (("user", 'ó"\n\ud800'), ("client-id", None)): {"producer_byte_rate": 1e6},
    (("ip", "::1"),): {"connection_creation_rate": 3.0},
    (("user", None),): {"request_percentage": 0.1, "controller_mutation_rate": 5.0},
}


async def test_quotas_are_there_after_a_start(tmp_path: Path, io: IoThreads) -> None:
    """Every name and value as it was given; nobody else may read or write the file."""
    quotas = Quotas()
    await QuotaWriter(tmp_path, quotas, io).change(lambda draft: draft.update(VALUES))

    assert load_quotas(tmp_path) == quotas.values == VALUES
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


async def test_nothing_is_in_force_that_is_not_on_the_disk(tmp_path: Path, io: IoThreads) -> None:
    """A disk that does not take a change leaves the quotas as they were."""
    quotas = Quotas()
    writer = QuotaWriter(tmp_path / "nowhere", quotas, io)

    with pytest.raises(KafkaStorageError, match="cannot be written"):
        await writer.change(lambda draft: draft.update(VALUES))
    assert (quotas.values, quotas.version) == ({}, 0)


async def test_changes_do_not_overtake_each_other(tmp_path: Path, io: IoThreads) -> None:
    """Of those that come together none is lost."""
    quotas = Quotas()
    writer = QuotaWriter(tmp_path, quotas, io)

    def setter(name: str) -> Values:
        return {(("user", name),): {"request_percentage": 1.0}}

    await asyncio.gather(
        *(
            writer.change(lambda draft, name=str(each): draft.update(setter(name)))  # type: ignore[misc]
            for each in range(20)
        )
    )

    assert len(load_quotas(tmp_path)) == 20
    assert quotas.version == 20


async def test_a_client_that_goes_leaves_no_half_change(tmp_path: Path, io: IoThreads) -> None:
    """A change that has begun is done on the disk and in force, before what comes next."""
    quotas = Quotas()
    writer = QuotaWriter(tmp_path, quotas, io)
    some: Values = {(("user", "a"),): {"request_percentage": 1.0}}
    await begin_and_go(writer.change(lambda draft: draft.update(VALUES)))
    await writer.change(lambda draft: draft.update(some))

    assert load_quotas(tmp_path) == quotas.values == VALUES | some


async def test_what_changes_nothing_is_not_written(tmp_path: Path, io: IoThreads) -> None:
    """A removal of a quota that does not exist needs no disk."""
    await QuotaWriter(tmp_path / "nowhere", Quotas(), io).change(lambda _: None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 2, "quotas": []}',
        b'{"version": 1, "quotas": {}}',
        b'{"version": 1, "quotas": [], "quotas": []}',
        b'{"version": 1, "quotas": [{"entity": {}, "quotas": {"request_percentage": true}}]}',
        b"[" * 200_000,
        b'{"version": 1, "quotas": [{"entity": {"user": "a"}}]}',
        b'{"version": 1, "quotas": [{"entity": {}, "quotas": {}}]}',
        b'{"version": 1, "quotas": [{"entity": {"user": 5}, "quotas": {}}]}',
        b'{"version": 1, "quotas": [{"entity": {"user": "a"}, "quotas": {"x": 1.0}}]}',
        b'{"version": 1, "quotas": [{"entity": {}, "quotas": {"request_percentage": 0}}]}',
    ],
)
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: bytes) -> None:
    """Without it clients would not be slowed down, and nobody would know."""
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(PrivateFileError, match="is damaged"):
        load_quotas(tmp_path)
