"""A Delta table in a Spark session that has Delta's own package: it merges on the executors.

Delta tries again above commits of others, which is ruled out here: a commit is tried once.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable

from siltstone.pipeline.engine import having
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.spark_merge import merge
from siltstone.pipeline.sinks.state import PROPERTY, TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE: Final = "userMetadata"
_OPTIONS: Final = "spark.databricks.delta."


def state_of(commit: Mapping[str, Any]) -> str | None:
    """Return the state in the one text that a commit of Spark has for its user."""
    name, _, text = (commit.get(_NOTE) or "").partition("=")
    return text if name == PROPERTY else None


class SparkTable:
    """The table in a folder that driver and executors see."""

    def __init__(self, session: "SparkSession", place: str) -> None:
        self._session = session
        self._place = place
        self._name = "delta.`file:{}`".format(place.replace("`", "``"))

    def merge(self, version: int, state: TableState, rewrite: Rewrite) -> bool:
        """Merge changed rows into a version, which must be the newest; tell if it has changed."""
        settings = {
            f"{_OPTIONS}maxCommitAttempts": "0",
            f"{_OPTIONS}commitInfo.{_NOTE}": f"{PROPERTY}={state.to_json()}",
        }
        with having(self._session, settings):
            check = partial(_check, self._place, version)
            done = merge(self._session, self._name, rewrite, check)
        return bool(done[0]["num_affected_rows"])


def _check(place: str, version: int) -> bool:
    """Check, in a task, that a version is still the newest."""
    newest = DeltaTable(place).version()
    if newest != version:
        raise ValueError(f"version {newest} of {place} came after {version}")
    return True
