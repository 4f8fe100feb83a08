"""What the tests of the pipeline share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.archives import Archive
from tests.support.broker import SiltstoneProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty log directory that no broker serves."""
    return Archive(tmp_path / "archive")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The one Spark session of a run, with the jars of Spark's own Kafka source."""
    from tests.support import spark  # noqa: PLC0415 - PySpark, only for who asks for it

    session = spark.start(spark.connector_jars(), scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="package")
def pipeline_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
    """A running broker whose folder the pipeline sees."""
    process = SiltstoneProcess(tmp_path_factory.mktemp("pipeline"))
    process.start()
    yield process
    process.close()
