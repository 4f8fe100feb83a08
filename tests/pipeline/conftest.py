"""Fixtures for the tests of the pipeline."""

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.archives import Archive
from tests.support.broker import a_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Iceberg has a package for Spark 4.1, which `make test-spark-all` runs beside the pinned release.
collect_ignore = [] if version("pyspark").startswith("4.1.") else ["test_iceberg_package.py"]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty log directory that no broker serves."""
    return Archive(tmp_path / "archive")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The one Spark session of a run, with the jars of Spark's own Kafka source and of tables.

    Jars that are not to be had are left out.
    """
    from tests.support import spark  # noqa: PLC0415 - PySpark, only where it is asked for

    jars: list[Path] = []
    with suppress(LookupError):
        jars += spark.connector_jars()
    for name in ("delta", "iceberg"):
        with suppress(LookupError):
            jars += spark.package_jars(name)
    session = spark.start(jars, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connector() -> None:
    """Skip what needs Spark's own Kafka source where its jars are not to be had."""
    from tests.support import spark  # noqa: PLC0415 - as above

    try:
        spark.connector_jars()
    except LookupError as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 server with a bucket."""
    from tests.support.object_store import serving_s3  # noqa: PLC0415 - PySpark, as above

    with serving_s3() as address:
        yield address


@pytest.fixture(scope="session")
def delta_package() -> None:
    """Skip what needs Delta's package for Spark where its jars are not to be had."""
    from tests.support import spark  # noqa: PLC0415 - as above

    try:
        spark.package_jars("delta")
    except LookupError as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="session")
def iceberg_package() -> None:
    """Skip what needs Iceberg's package for Spark where its jars are not to be had."""
    from tests.support import spark  # noqa: PLC0415 - as above

    try:
        spark.package_jars("iceberg")
    except LookupError as lack:
        pytest.skip(str(lack))


pipeline_broker = a_process(scope="package")
