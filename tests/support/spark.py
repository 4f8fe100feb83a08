"""Spark sessions for tests: small, quick to start, one for each run of the tests."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START, open_session
from tests.support.kafka import cache_folder, copy_jars

SMALL = {
    "spark.driver.extraJavaOptions": FAST_START,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}


def start(jars: Iterable[Path] = (), *, scratch: Path) -> SparkSession:
    """Return a session of two cores, or skip the test where there is no Java."""
    try:
        find_java()
    except PipelineError as error:
        pytest.skip(f"java: {error}")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {**SMALL, "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    # A second try for a task: on a busy machine a Python worker may take more than the ten seconds
    # that Spark waits for it.
    return open_session("tests", master="local[2,2]", conf=conf, jars=jars)


def package_jars(name: str) -> list[Path]:
    """Return the jars of Delta's or Iceberg's package for the release of Spark that is here.

    Raises:
        LookupError: they are not in the cache, and Maven cannot bring them, or are for another.
    """
    release = ".".join(pyspark.__version__.split(".")[:2])
    copy_jars(Path(__file__).parents[1] / name, f"{name}-jars")
    found = sorted((cache_folder() / f"{name}-jars").glob("*.jar"))
    if not any(f"{release}_2.13-" in jar.name for jar in found):
        raise LookupError(f"the tests have no package of {name} for Spark {release}")
    return found


def connector_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka source.

    Raises:
        LookupError: they are not in the cache, and Maven cannot bring them.
    """
    copy_jars(Path(__file__).parents[1] / "connector", "connector-jars")
    return sorted((cache_folder() / "connector-jars").glob("*.jar"))
