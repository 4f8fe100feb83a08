"""The cluster path for real: spark-submit, two executor processes, a packed environment."""

import json
import os
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pyarrow.parquet as pq
import pyspark
import pytest

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START
from tests.support.broker import SiltstoneProcess
from tests.support.keyed_log import KeyedLog
from tests.support.produced import create_topic, numbered, produce
from tests.support.programs import output_of
from tests.support.tiny_disk import TinyDisk

ROOT = Path(__file__).parents[3]
PACKAGES = ("config", "pipeline", "protocol", "storage")
PYTHON = """#!/bin/sh
# The interpreter with what it has installed, and our packages from this archive.
{first}
here=$(cd "$(dirname "$0")/.." && pwd)
echo "$here" >> "{seen}"
PYTHONPATH="$here/lib:$PYTHONPATH" exec "{python}" "$@"
"""
HIDDEN = """
if [ -n "$SPARK_EXECUTOR_DIRS" ] && [ -z "$HIDDEN" ]; then
  export HIDDEN=1
  case "$PWD" in
    */0) hide='mount -t tmpfs none "{data}"' ;;
    *) hide='mount --bind "{other}" "{data}"' ;;
  esac
  exec unshare --mount --propagation private sh -c "$hide && exec \\"\\$0\\" \\"\\$@\\"" "$0" "$@"
fi
"""
"""An executor's workers do not see the broker's disk: one has nothing at that path, one another."""
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def pack(folder: Path, seen: Path, first: str = "") -> Path:
    """Return an archive with our packages and an interpreter that prefers them."""
    try:
        find_java()
    except PipelineError as error:
        pytest.skip(f"java: {error}")
    script = folder / "python"
    script.write_text(PYTHON.format(seen=seen, python=sys.executable, first=first))
    script.chmod(0o755)
    archive = folder / "env.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(script, "bin/python")
        packed.add(ROOT / "siltstone" / "__init__.py", "lib/siltstone/__init__.py")
        for package in PACKAGES:
            packed.add(ROOT / package, f"lib/siltstone/{package}", filter=without_caches)
    return archive


def without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave compiled bytecode out."""
    return None if "__pycache__" in member.name else member


def spark_home(folder: Path) -> Path:
    """Return PySpark's folder by links, so that workers do not work in the real one."""
    home = folder / "spark"
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            (home / entry.name).symlink_to(entry)
    return home


def submit(folder: Path, archive: Path, *arguments: str) -> str:
    """Run a job on two executor processes and return what it says."""
    home = spark_home(folder)
    command = [
        str(home / "bin" / "spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        "--archives",
        f"{archive}#env",
        "--conf",
        "spark.pyspark.python=./env/bin/python",
        "--conf",
        f"spark.pyspark.driver.python={sys.executable}",
        "--conf",
        "spark.executor.memory=512m",
        "--conf",
        f"spark.driver.extraJavaOptions={FAST_START}",
        "--conf",
        f"spark.executor.extraJavaOptions={FAST_START}",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.scheduler.minRegisteredResourcesRatio=1.0",
        str(ROOT / "pipeline" / "__main__.py"),
        *arguments,
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",
    }
    return output_of(command, cwd=folder, env=environ, timeout=280)


def test_snapshot_and_audit(tmp_path: Path) -> None:
    """Both run in executors that have nothing but the archive, and are right."""
    log = KeyedLog(tmp_path / "log", partitions=2)
    log.write(3000)
    seen = tmp_path / "seen"
    archive = pack(tmp_path, seen)
    where = ("--archive", str(log.root))

    said = submit(
        tmp_path, archive, "snapshot", "t", "--plan", "shuffle", "--to", f"{tmp_path}/t", *where
    )
    submit(tmp_path, archive, "audit", "t", "--json", str(tmp_path / "report.json"), *where)

    rows = pq.read_table(tmp_path / "t", partitioning=None).to_pylist()
    assert {(row["partition"], row["key"]): row["value"] for row in rows} == log.live()
    assert len(rows) == len(log.live())
    assert "snapshot of t: whole, plan shuffle" in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["faults"], report["records"]) == (0, 3000)
    homes = {line for line in seen.read_text().splitlines() if line}
    assert all(not home.startswith(str(ROOT)) for home in homes)
    assert len(homes) >= 2


def test_executors_that_do_not_see_what_the_driver_pins(tmp_path: Path) -> None:
    """They read over the network, also where another broker's folder has that path."""
    process, other = SiltstoneProcess(tmp_path / "broker"), SiltstoneProcess(tmp_path / "other")
    TinyDisk(tmp_path, "1m").close()  # skip where nothing may be mounted
    seen = tmp_path / "seen"
    first = HIDDEN.format(data=process.folder, other=other.folder)
    archive = pack(tmp_path, seen, f'echo "$PWD" >> "{seen}.workers"{first}')
    with closing(process.start()), closing(other.start()):
        create_topic(process.bootstrap, "t", partitions=2, config={"segment.bytes": "20000"})
        for partition in range(2):
            for first_offset in range(0, 2000, 200):
                made = numbered(200, first=first_offset, partition=partition)
                produce(process.bootstrap, "t", made)
        create_topic(other.bootstrap, "t", partitions=2)
        produce(other.bootstrap, "t", numbered(10))

        where = ("--bootstrap", process.bootstrap, "--option", "splitBytes=10k")
        submit(tmp_path, archive, "export", "t", "--to", f"{tmp_path}/t", *where)
        with urlopen(f"http://{process.http}/metrics") as page:
            metrics = page.read().decode()

    rows = pq.read_table(tmp_path / "t", partitioning=None).to_pylist()
    assert sorted((row["partition"], row["offset"], row["key"]) for row in rows) == [
        (partition, offset, b"k%d" % offset) for partition in range(2) for offset in range(2000)
    ]
    assert 'siltstone_pins_ended_total{why="released"} 1' in metrics
    assert {line[-2:] for line in Path(f"{seen}.workers").read_text().splitlines()} >= {"/0", "/1"}
