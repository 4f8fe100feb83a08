"""An Iceberg table in a Spark session that has its catalogue: Iceberg's package merges there.

Iceberg tries a commit again above those of others, but only if these have neither added rows nor
taken away a file that it rewrites. So what was merged is right above them, too.
"""

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import load_catalog

from siltstone.pipeline.engine import having
from siltstone.pipeline.errors import Refused
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.spark_merge import merge
from siltstone.pipeline.sinks.state import PROPERTY, TableState

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

_CATALOGUE: Final = "org.apache.iceberg.spark.SparkCatalog"
_NOTE: Final = "spark.sql.iceberg.snapshot-property."


class SparkTable:
    """The table of a catalogue that the session has by the name that pyiceberg has for it."""

    def __init__(self, session: "SparkSession", catalog: str, identifier: tuple[str, ...]) -> None:
        self._session = session
        self._catalog = catalog
        self._identifier = identifier
        self._name = ".".join(f"`{each}`" for each in (catalog, *identifier))

    def merge(self, table: "Table", state: TableState, rewrite: Rewrite) -> None:
        """Merge changed rows into a version, which must be the newest.

        Raises:
            Refused: The session has another table of the name.
        """
        session, version = self._session, table.metadata_location
        session.catalog.refreshTable(self._name)
        entries = session.table(f"{self._name}.metadata_log_entries").select("file").collect()
        if version not in {entry["file"] for entry in entries}:
            raise Refused(
                f"{self._name} of the Spark session is another table than that of pyiceberg; have "
                f"spark.sql.catalog.{self._catalog} name the same catalogue"
            )
        properties = dict(table.catalog.properties)
        check = partial(_check, self._catalog, properties, self._identifier, version)
        with having(session, {f"{_NOTE}{PROPERTY}": state.to_json()}):
            merge(session, self._name, rewrite, check)


def find_table(
    session: "SparkSession | None", catalog: str, identifier: tuple[str, ...]
) -> SparkTable | None:
    """Return the table in a session that has the catalogue of Iceberg's package; else None."""
    if session is None or not catalog:
        return None
    is_known = session.conf.get(f"spark.sql.catalog.{catalog}", "") == _CATALOGUE
    return SparkTable(session, catalog, identifier) if is_known else None


def _check(
    catalog: str, properties: Mapping[str, str], identifier: tuple[str, ...], version: str
) -> None:
    """Check, in a task, that a version is still the newest."""
    with closing(load_catalog(catalog, **properties)) as opened:
        newest = opened.load_table(identifier).metadata_location
    if newest != version:
        raise ValueError(f"version {newest} of {'.'.join(identifier)} came after {version}")
