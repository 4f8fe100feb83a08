"""The file of the quotas: whole, private, and in force only when it is written."""

from pathlib import Path

import pytest

from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.private_file import PrivateFileError
from siltstone.broker.security.quotas.book import Quotas, Values
from siltstone.broker.security.quotas.store import FILE_NAME, QuotaWriter, load_quotas

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
