"""A Delta table in a Spark session that has Delta's own package: it merges on the executors.

Delta merges into the newest version, and tries again above commits of others. Both are ruled out
here: a job is right only on the version whose state it has read. The changed rows are read once
Delta has chosen its version, and with them it is checked that the newest one is still the one of
the job. After that the commit is tried once.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable

from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.state import PROPERTY, TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE: Final = "userMetadata"
_OPTIONS: Final = "spark.databricks.delta."
_CHANGES: Final = "siltstone_changes"
_FILE_BYTES: Final = 256 << 20
_PATTERN: Final = re.compile(r"([][{}*?\\])")


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
        from pyspark.sql.functions import lit, udf  # noqa: PLC0415  # an extra

        places = [
            _PATTERN.sub(r"\\\1", f"file:{rewrite.folder.place(each)}") for each in rewrite.changes
        ]
        changes = self._session.read.parquet(*places)
        check = udf(partial(_check, self._place), "boolean", useArrow=False).asNondeterministic()
        checked = self._session.range(1, numPartitions=1).where(check(lit(version))).select()
        changes.crossJoin(checked).createOrReplaceTempView(_CHANGES)
        names = rewrite.schema.names
        keys = ("key", "partition") if rewrite.by_partition else ("key",)
        same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        gone = ", ".join(each if each in keys else f"NULL {each}" for each in names)
        settings = {
            "maxCommitAttempts": "0",
            f"commitInfo.{_NOTE}": f"{PROPERTY}={state.to_json()}",
        }
        with self._set(settings):
            # Each changed row comes twice, as an update would leave each of several rows of a key.
            done = self._session.sql(
                f"""
                MERGE INTO {self._name} t USING (
                  SELECT {gone}, false is_new FROM {_CHANGES} UNION ALL
                  SELECT {", ".join(names)}, true FROM {_CHANGES} WHERE value IS NOT NULL
                ) s ON {same} AND NOT s.is_new
                WHEN MATCHED THEN DELETE
                WHEN NOT MATCHED AND s.is_new THEN
                  INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{each}" for each in names)})
                """  # noqa: S608  # names of our own columns
            ).collect()
        return bool(done[0]["num_affected_rows"])

    def compact(self, small_bytes: int) -> None:
        """Put small files together; if another writer is first, they are left."""
        from py4j.protocol import Py4JError  # noqa: PLC0415  # an extra
        from pyspark.errors import PySparkException  # noqa: PLC0415  # likewise

        settings = {"minFileSize": str(small_bytes), "maxFileSize": str(_FILE_BYTES)}
        with (
            self._set({f"optimize.{name}": text for name, text in settings.items()}),
            suppress(PySparkException, Py4JError),  # PySpark does not know errors of Delta
        ):
            self._session.sql(f"OPTIMIZE {self._name}")

    @contextmanager
    def _set(self, options: Mapping[str, str]) -> Iterator[None]:
        """Have options of Delta in the session until the block ends."""
        conf = self._session.conf
        for name, text in options.items():
            conf.set(_OPTIONS + name, text)
        try:
            yield
        finally:
            for name in options:
                conf.unset(_OPTIONS + name)


def _check(place: str, version: int) -> bool:
    """Check, in a task, that a version is still the newest."""
    newest = DeltaTable(place).version()
    if newest != version:
        raise ValueError(f"version {newest} of {place} came after {version}")
    return True
