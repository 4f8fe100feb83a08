"""The cluster path for real: spark-submit, two executor processes, a packed environment."""

import json
import os
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.sinks.table import open_table
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START
from tests.support.keyed_log import KeyedLog
from tests.support.programs import output_of

ROOT = Path(__file__).parents[3]
PACKAGES = ("config", "pipeline", "protocol", "storage")
PYTHON = """#!/bin/sh
# The interpreter with what it has installed, and our packages from this archive.
here=$(cd "$(dirname "$0")/.." && pwd)
echo "$here" >> "{seen}"
PYTHONPATH="$here/lib:$PYTHONPATH" exec "{python}" "$@"
"""
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def pack(folder: Path, seen: Path) -> Path:
    """Return an archive with our packages and an interpreter that prefers them."""
    script = folder / "python"
    script.write_text(PYTHON.format(seen=seen, python=sys.executable))
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
        str(ROOT / "pipeline" / "__main__.py"),
        *arguments,
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",
    }
    return output_of(command, cwd=folder, env=environ, timeout=280)


def test_snapshot_and_audit(tmp_path: Path) -> None:
    """Both run in executors that have nothing but the archive, and are right."""
    try:
        find_java()
    except PipelineError as error:
        pytest.skip(f"java: {error}")
    log = KeyedLog(tmp_path / "log", partitions=2)
    log.write(3000)
    seen = tmp_path / "seen"
    archive = pack(tmp_path, seen)
    where = ("--archive", str(log.root))

    said = submit(
        tmp_path, archive, "snapshot", "t", "--plan", "shuffle", "--to", f"{tmp_path}/t", *where
    )
    submit(tmp_path, archive, "audit", "t", "--json", str(tmp_path / "report.json"), *where)

    rows = [
        row
        for path in open_table(f"{tmp_path}/t").files()
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    assert {(row["partition"], row["key"]): row["value"] for row in rows} == log.live()
    assert len(rows) == len(log.live())
    assert "snapshot of t: whole, plan shuffle" in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["faults"], report["records"]) == (0, 3000)
    homes = {line for line in seen.read_text().splitlines() if line}
    assert all(not home.startswith(str(ROOT)) for home in homes)
    assert len(homes) >= 2
