"""Tables in object storage: moto serves S3, and the jobs reach it as a user configures it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import Refused
from siltstone.pipeline.jobs.export import COLUMNS, ExportSpec, export
from siltstone.pipeline.sinks.parquet import ParquetFolder
from siltstone.pipeline.sinks.staging import SinkFailed, write_tables
from siltstone.pipeline.sinks.table import open_new
from tests.support.broker import SiltstoneProcess
from tests.support.keyed_log import KeyedLog
from tests.support.object_store import ACCESS, BUCKET, catalogue_variables
from tests.support.produced import create_topic
from tests.support.programs import run_to_end
from tests.support.replays import read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Place:
    """A log, and the settings by which jobs reach the store and a catalogue ``shop``."""

    def __init__(self, root: Path, endpoint: str, name: str) -> None:
        self.log = KeyedLog(root / "log", partitions=2)
        self.access = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "a secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"s3://{BUCKET}/{name}",
            "s3.endpoint": endpoint,
            "s3.region": "us-east-1",
            **ACCESS,
        }

    def run(self, job: str, target: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a job from the log as a process of its own."""
        return self.run_any(job, "t", "--to", target, "--archive", str(self.log.root), *more)

    def run_any(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a job."""
        command = [sys.executable, "-m", "siltstone.pipeline", *arguments, "--engine", "local"]
        catalog = catalogue_variables("shop", self.catalog)
        return run_to_end(command, env={**os.environ, **self.access, **catalog}, timeout=120)


@pytest.fixture
def place(tmp_path: Path, endpoint: str) -> Place:
    """A log with records."""
    place = Place(tmp_path, endpoint, tmp_path.name)
    place.log.write(800)
    return place


def rows_of(table: pa.Table) -> dict[tuple[int, bytes], bytes]:
    """Return what a table has; no key comes twice."""
    found = {(row["partition"], row["key"]): row["value"] for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_snapshots(place: Place, tmp_path: Path, kind: str) -> None:
    """Whole and by increments a table is that of the topic, and only its files are left."""
    uri = f"s3://{BUCKET}/{tmp_path.name}"
    target = f"delta:{uri}" if kind == "delta" else "iceberg:shop.sales.users"

    known: set[str] = set()
    for more in ((), ("--incremental",), ("--incremental",)):
        done = place.run("snapshot", target, *more)
        assert done.returncode == 0, done.stderr
        assert ("increment, plan" if more else "whole, plan") in done.stderr
        if kind == "delta":
            delta = DeltaTable(uri, storage_options=place.access)
            found = delta.to_pyarrow_table()
            assert set(delta.vacuum(0, enforce_retention_duration=False)) <= known
            known |= {uri.rpartition("/")[2] for uri in delta.file_uris()}
        else:
            catalog = load_catalog("shop", **place.catalog)
            found = catalog.load_table("sales.users").scan().to_arrow()
            catalog.close()
        assert rows_of(found) == place.log.live()
        place.log.write(100)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_executors_get_the_store(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A folder of a store is sent to other processes, as a task is."""
    for name, value in place.access.items():
        monkeypatch.setenv(name, value)
    folder = open_new(f"{kind}:s3://{BUCKET}/{tmp_path.name}").folder
    rows = pa.table({"offset": [1, 2]})

    sent = pickle.loads(pickle.dumps(folder))
    files = write_tables(sent, rows.schema, [rows])

    assert folder.missing(files) == []
    assert folder.read(files[0]) == rows


def test_an_export(place: Place, tmp_path: Path) -> None:
    """An export puts its files there, and a second one is refused without a mode."""
    target = f"delta:s3://{BUCKET}/{tmp_path.name}"
    assert place.run("export", target).returncode == 0
    refused = place.run("export", target)

    assert refused.returncode == 2
    assert "has data already; take --mode append" in refused.stderr
    assert place.run("export", target, "--mode", "append").returncode == 0
    table = DeltaTable(target.removeprefix("delta:"), storage_options=place.access)
    assert table.to_pyarrow_table().num_rows == 1600


def test_an_export_of_parquet_files(place: Place, tmp_path: Path) -> None:
    """A new place gets the files and then the state; one with files stays as it is."""
    target = f"parquet:s3://{BUCKET}/{tmp_path.name}"
    done = place.run("export", target, "--option", "splitBytes=16k")
    assert done.returncode == 0, done.stderr
    files = fs.S3FileSystem(
        endpoint_override=place.access["AWS_ENDPOINT_URL"],
        access_key="somebody",
        secret_key="a secret",  # as moto takes any
        region="us-east-1",
    )
    selector = fs.FileSelector(f"{BUCKET}/{tmp_path.name}", recursive=True)
    before = sorted(each.base_name for each in files.get_file_info(selector))
    for mode in ("error", "append", "overwrite"):
        refused = place.run("export", target, "--mode", mode)

        (said,) = [line for line in refused.stderr.splitlines() if line.startswith("pipeline: ")]
        assert refused.returncode == 1
        assert "has _siltstone.json already, and no step changes such a folder" in said

    assert sorted(each.base_name for each in files.get_file_info(selector)) == before
    assert before[0] == "_siltstone.json"
    found = ds.dataset(selector.base_dir, filesystem=files).to_table()
    rows = sorted((row["partition"], row["offset"]) for row in found.to_pylist())
    assert rows == [(at, offset) for at, end in place.log.ends().items() for offset in range(end)]


def test_two_exports_to_a_place(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one ends in a sentence, and leaves only the files of the first."""
    for name, value in place.access.items():
        monkeypatch.setenv(name, value)
    target = f"s3://{BUCKET}/{tmp_path.name}"
    first, second = (ExportSpec(target=f"parquet:{target}") for _ in range(2))
    read = {"subscribe": "t", "archive": str(place.log.root)}
    run = LocalEngine.run

    def overtaken(*arguments: Any) -> Any:
        found = run(*arguments)
        monkeypatch.setattr(LocalEngine, "run", run)
        export(LocalEngine(1), read, first)
        return found

    monkeypatch.setattr(LocalEngine, "run", overtaken)
    with pytest.raises(Refused, match=r"has _siltstone\.json already"):
        export(LocalEngine(1), read, second)

    files, path = fs.FileSystem.from_uri(target)
    assert ds.dataset(path, filesystem=files).count_rows() == 800


def test_an_export_that_fails_in_its_commit(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is left, and the next one finds the place new."""
    for name, value in place.access.items():
        monkeypatch.setenv(name, value)
    target = f"s3://{BUCKET}/{tmp_path.name}"
    spec = ExportSpec(target=f"parquet:{target}")
    read = {"subscribe": "t", "archive": str(place.log.root), "splitBytes": "16k"}
    move = ParquetFolder._move
    moved: list[str] = []

    def fails(sink: ParquetFolder, name: str) -> None:
        moved.append(name)
        if len(moved) == 2:
            raise OSError("the store is gone")
        move(sink, name)

    monkeypatch.setattr(ParquetFolder, "_move", fails)
    with pytest.raises(SinkFailed, match=r"cannot be written \(the store is gone\)"):
        export(LocalEngine(1), read, spec)

    files, path = fs.FileSystem.from_uri(target)
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    assert [each.path for each in files.get_file_info(selector)] == []
    monkeypatch.setattr(ParquetFolder, "_move", move)
    assert export(LocalEngine(1), read, spec).rows == 800


def test_an_export_of_nothing(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a file without rows, with the columns."""
    place = Place(tmp_path, endpoint, tmp_path.name)
    for name, value in place.access.items():
        monkeypatch.setenv(name, value)
    target = f"s3://{BUCKET}/{tmp_path.name}"
    read = {"subscribe": "t", "archive": str(place.log.root)}
    export(LocalEngine(1), read, ExportSpec(target=target))

    files, path = fs.FileSystem.from_uri(target)
    assert ds.dataset(path, filesystem=files).schema.names == list(COLUMNS)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_replay(
    place: Place, pipeline_broker: SiltstoneProcess, tmp_path: Path, kind: str
) -> None:
    """The rows of a table in the store are sent, by its library's file system, each once."""
    target = f"s3://{BUCKET}/{tmp_path.name}" if kind == "delta" else "shop.sales.sent"
    topic = f"from-{kind}"
    create_topic(pipeline_broker.bootstrap, topic, partitions=2, config={"retention.ms": "-1"})
    done = place.run("snapshot", f"{kind}:{target}")
    assert done.returncode == 0, done.stderr

    to = ("--topic", topic, "--bootstrap", pipeline_broker.bootstrap)
    done = place.run_any("replay", f"{kind}:{target}", *to, "--exactly-once")
    again = place.run_any("replay", f"{kind}:{target}", *to, "--exactly-once")

    assert done.returncode == 0, done.stderr
    rows = read_rows(pipeline_broker.bootstrap, topic)
    assert {row[:2]: row[2] for row in rows} == place.log.live()
    assert len(rows) == len(place.log.live())
    assert again.returncode == 0, again.stderr
    assert "replay: 0 records sent" in again.stderr


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("parquet:s3://nowhere/users", "Bucket 'nowhere' not found"),
        ("delta:s3://nowhere/users", "the table s3://nowhere/users cannot be opened (Kernel error"),
        ("iceberg:nobody.sales.users", "pyiceberg has no catalogue nobody ("),
    ],
)
def test_what_is_not_reached(place: Place, target: str, why: str) -> None:
    """A bucket or a catalogue that is not known is named in one sentence."""
    done = place.run("export", target)

    (said,) = [line for line in done.stderr.splitlines() if line.startswith("pipeline: ")]
    assert done.returncode in {1, 2}
    assert why in said
