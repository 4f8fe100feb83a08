"""Archives through pyarrow.fs: the same rows as from a folder of this machine."""

from collections.abc import Iterator

import pytest
from pyarrow import fs

from siltstone.pipeline import stores
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.stores import Store, open_store
from siltstone.pipeline.transports import open_source
from siltstone.storage import files
from tests.support.archives import Archive, damage, positions, read_splits

COLUMNS = ("key", "value", "offset", "timestamp", "position")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have s3:// mean this machine's files, through all of pyarrow.fs but its network."""

    def of(uri: str) -> tuple[Store, str]:
        return Store(fs.LocalFileSystem(), is_local=False), uri.removeprefix("s3://")

    monkeypatch.setattr(stores.Store, "of", of)
    open_store.cache_clear()
    yield
    open_store.cache_clear()


@pytest.mark.usefixtures("remote")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"splitBytes": "3k"},
        {"startingOffsets": '{"t":{"0":123}}', "endingOffsets": '{"t":{"0":456}}'},
        {"startingTimestamp": "1700000300000"},
        {"timestampFrom": "1700000100000", "timestampTo": "1700000200500"},
        {"kafka.isolation.level": "read_committed"},
    ],
)
def test_object_storage_gives_the_same_rows(archive: Archive, options: dict[str, str]) -> None:
    """Planning and reading need nothing but listing and ranges of files."""
    archive.fill_plain(600, interval=0)
    local = archive.read(COLUMNS, options)

    asked = {"subscribe": "t", "archive": f"s3://{archive.root}", **options}
    with open_source(ReadOptions.parse(asked)) as source:
        found = read_splits(source.plan(source.view()), COLUMNS)

    assert found.num_rows > 0
    assert found.equals(local)


@pytest.mark.usefixtures("remote")
def test_damage_in_object_storage_names_the_object(archive: Archive) -> None:
    """A fault says the place that the reader knows."""
    folder = archive.fill_plain(100)
    log = folder / files.segment_file_name(0)
    damage(log, positions(folder)[3] + 70)

    asked = {"subscribe": "t", "archive": f"s3://{archive.root}"}
    with open_source(ReadOptions.parse(asked)) as source:
        splits = source.plan(source.view())

    with pytest.raises(Exception, match=f"s3://{log} at position"):
        read_splits(splits)


def test_a_uri_that_nobody_knows() -> None:
    """A store that pyarrow.fs cannot open is one sentence."""
    with pytest.raises(SourceUnavailable, match=r"pyarrow\.fs cannot open gopher://x/y"):
        open_source(ReadOptions.parse({"subscribe": "t", "archive": "gopher://x/y"})).view()


def test_a_file_uri_is_this_machine(archive: Archive) -> None:
    """file:// is read as a path, the broker's lock included."""
    archive.fill_plain(50)

    asked = {"subscribe": "t", "archive": archive.root.as_uri()}
    with open_source(ReadOptions.parse(asked)) as source:
        assert read_splits(source.plan(source.view())).num_rows == 50
