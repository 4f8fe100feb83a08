"""Jobs and reads by Spark Connect, whose sessions have no SparkContext."""

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.sinks.table import open_new
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START
from tests.support.kafka import cache_folder
from tests.support.keyed_log import KeyedLog
from tests.support.programs import run_to_end

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from siltstone.pipeline.engine import SparkEngine
from siltstone.pipeline.jobs.export import ExportSpec, export
from siltstone.pipeline.jobs.snapshot import EVERY_RECORD, SnapshotSpec, snapshot
from siltstone.pipeline.jobs.stream import stream
from siltstone.pipeline.spark.session import open_session
log, folder = sys.argv[1:]
session = open_session("connect")
engine = SparkEngine(session)
read = {"archive": log, "splitBytes": "20k"}
frame = session.read.format("siltstone").options(subscribe="t", **read).load()
count = frame.where("offset >= 10").count()
exported = export(engine, {"subscribe": "t", **read}, ExportSpec(target=folder + "/rows")).rows
spec = SnapshotSpec(topic="t", target=folder + "/table", plan="shuffle")
live = snapshot(engine, read, spec).rows
spec = SnapshotSpec(topic="t", target="delta:" + folder + "/all", key_scope=EVERY_RECORD)
followed = stream(engine, {**read, "maxOffsetsPerTrigger": "2000"}, spec, once=True)
told = [count, exported, live, followed.rows, followed.commits]
print(json.dumps([engine.package_session is None, engine.cores, *told]))
session.stop()
"""


@pytest.fixture
def packages() -> Path:
    """Where the packages of a client of Spark Connect are unpacked."""
    folder = cache_folder() / "spark-connect"
    if not (folder / "grpc_status").is_dir():
        pytest.skip("grpc: not unpacked; make spark-connect does it")
    try:
        find_java()
    except PipelineError as error:
        pytest.skip(f"java: {error}")
    return folder


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_jobs_and_reads_by_spark_connect(packages: Path, tmp_path: Path) -> None:
    """They give what they give by a session of one's own, with a shuffle, too."""
    log = KeyedLog(tmp_path / "log", partitions=2)
    log.write(3000)
    path = filter(None, [os.environ.get("PYTHONPATH")])  # another release of PySpark
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages), *path]),
        "SPARK_REMOTE": "local[2]",
        "JDK_JAVA_OPTIONS": FAST_START,
    }

    command = [sys.executable, "-c", PROGRAM, str(log.root), str(tmp_path)]
    done = run_to_end(command, env=environ, cwd=tmp_path, timeout=180)

    assert done.returncode == 0, done.stderr
    is_remote, cores, *told = json.loads(done.stdout.splitlines()[-1])
    assert (is_remote, cores) == (True, 2)
    assert told == [2980, 3000, len(log.live()), 3000, 2]
    rows = [
        row
        for path in open_new(f"{tmp_path}/table").files()
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    assert {(row["partition"], row["key"]): row["value"] for row in rows} == log.live()
