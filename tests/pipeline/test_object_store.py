"""Tables in object storage: moto serves S3, and the jobs reach it as a user configures it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from siltstone.pipeline.sinks.staging import write_tables
from siltstone.pipeline.sinks.table import open_table
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


def test_executors_get_the_store(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a store is sent to other processes, as a task is."""
    for name, value in place.access.items():
        monkeypatch.setenv(name, value)
    folder = open_table(f"delta:s3://{BUCKET}/{tmp_path.name}").folder
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
    progress = ("--progress", str(tmp_path / "progress"))
    done = place.run_any("replay", f"{kind}:{target}", *to, *progress)
    again = place.run_any("replay", f"{kind}:{target}", *to, *progress)

    assert done.returncode == 0, done.stderr
    rows = read_rows(pipeline_broker.bootstrap, topic)
    assert {row[:2]: row[2] for row in rows} == place.log.live()
    assert len(rows) == len(place.log.live())
    assert again.returncode == 0, again.stderr
    assert "replay: 0 records sent" in again.stderr


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("delta:s3://nowhere/users", "the table s3://nowhere/users cannot be opened (Kernel error"),
        ("iceberg:nobody.sales.users", "pyiceberg has no catalogue nobody ("),
    ],
)
def test_what_is_not_reached(place: Place, target: str, why: str) -> None:
    """A bucket or a catalogue that is not known is named in one sentence."""
    done = place.run("snapshot", target)

    (said,) = [line for line in done.stderr.splitlines() if line.startswith("pipeline: ")]
    assert done.returncode in {1, 2}
    assert why in said
