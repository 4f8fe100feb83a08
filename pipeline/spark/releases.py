"""The releases of Spark for which the source and the jobs are made and tested."""

from typing import Final

from siltstone.pipeline.errors import SourceUnavailable

SUPPORTED: Final = ("4.1", "4.2", "4.3")
"""As in the table of docs/pipeline.md."""
WANTED: Final = "pyspark>=4.1,<4.4"


def check_release(version: str) -> None:
    """Make sure that a version of Spark is one of a supported release.

    Raises:
        SourceUnavailable: It is not.
    """
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        raise SourceUnavailable(
            f"Spark {version} is not one of the releases that are supported here, "
            f"{', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}: pip install '{WANTED}'"
        )
