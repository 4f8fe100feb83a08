"""A Spark session in which the data source and the jobs work, without its usual traps.

Workers run this interpreter, not just any ``python3``. Filters may be pushed down. Jars are named
one by one. A missing or old Java is reported in one sentence, and Spark logs little. Under
spark-submit no setting of Spark is changed.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.releases import check_release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
DEFAULTS: Final = {
    _PUSHDOWN: "true",
    "spark.ui.enabled": "false",
}
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_SNAPSHOT: Final = "spark.databricks.delta.snapshotPartitions"
"""In how many tasks Delta reads its log: 50 by default, which take seconds on two cores."""
FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for small jobs and tests: the start takes a third less, the rest is slower."""
_CHECK: Final = "import siltstone.pipeline.reading.scan, sys; print(sys.version_info[:2])"
_RELEASE_OF_JAR: Final = re.compile(r"(?:delta-spark_|iceberg-spark-runtime-)(\d+\.\d+)_")
_SECONDS: Final = 60
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def open_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    jars: Iterable[str | Path] = (),
) -> "SparkSession":
    """Return a session; by default on this machine, with all cores.

    With a server of Spark Connect it is one of that server, which has settings and jars of its own.

    Raises:
        SourceUnavailable: PySpark, Java or a jar is missing, or workers could not read topics; or
            the release of Spark is not supported.
    """
    try:
        import pyspark  # noqa: PLC0415 - an extra: it may be missing
        from pyspark.sql import SparkSession  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise SourceUnavailable(
            "PySpark is not installed here; install siltstone with its extra, in a clone of it "
            "by: pip install '.[spark]'"
        ) from error
    check_release(pyspark.__version__)
    remote = remote_of(master)
    if remote:
        return _open_remote(remote)
    progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    settings = {**DEFAULTS, **progress, **(conf or {})}
    files = [check_jar(Path(jar)) for jar in jars]
    if files:
        settings["spark.jars"] = ",".join(files)
    if any("delta-spark_" in jar for jar in files):
        settings = {**_DELTA, _SNAPSHOT: "4", **settings}
    if not is_submitted():
        settings["spark.master"] = master or settings.get("spark.master", "local[*]")
        prepare_environment(settings)
    elif master:
        settings["spark.master"] = master
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def has_delta(session: "SparkSession") -> bool:
    """Tell whether a session has Delta's own package and its settings."""
    return all(each in (session.conf.get(name, "") or "") for name, each in _DELTA.items())


def remote_of(master: str | None) -> str:
    """Return the server of Spark Connect that a master or SPARK_REMOTE names; empty without one."""
    if master is None:
        return os.environ.get("SPARK_REMOTE", "")
    return master if master.startswith("sc://") else ""


def _open_remote(remote: str) -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    if remote.startswith("local"):  # a server that PySpark starts
        prepare_environment({"spark.master": remote})
    try:
        session = SparkSession.builder.remote(remote).config(_PUSHDOWN, "true").getOrCreate()
    except ImportError as error:
        raise SourceUnavailable(
            f"Spark Connect needs packages that are missing here ({error}); install them by: pip "
            "install 'pyspark[connect]'"
        ) from error
    check_release(session.version)  # the server's own
    return session


def prepare_environment(settings: dict[str, str]) -> None:
    """Set the interpreter, the Java and the logging of a JVM that is started from here.

    Raises:
        SourceUnavailable: Java is missing, or the workers' interpreter lacks this package.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    check_worker(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))
    os.environ["JAVA_HOME"] = str(find_java())
    quiet = f"-Dlog4j2.configurationFile={LOGGING}"
    settings[_JAVA_OPTIONS] = f"{settings.get(_JAVA_OPTIONS, '')} {quiet}".strip()


def is_submitted() -> bool:
    """Tell whether spark-submit has started this process, and the JVM with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_worker(python: str) -> None:
    """Make sure that an interpreter can read topics in a task.

    Raises:
        SourceUnavailable: it has another version, or lacks what a task imports.
    """
    if python == sys.executable:
        return
    advice = f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
    try:
        done = subprocess.run(  # noqa: S603 - what PYSPARK_PYTHON names
            [python, "-c", _CHECK], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceUnavailable(
            f"workers cannot run PYSPARK_PYTHON={python}: {error}; {advice}"
        ) from error
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise SourceUnavailable(f"workers would run {python}, which fails: {reason}; {advice}")
    if done.stdout.strip() != str(tuple(sys.version_info[:2])):
        raise SourceUnavailable(
            f"workers would run {python}, another version of Python than the driver; {advice}"
        )


def jars_in(folder: str) -> list[Path]:
    """Return the jars in a folder; none without a folder.

    Raises:
        SourceUnavailable: it has none.
    """
    found = sorted(Path(folder).glob("*.jar")) if folder else []
    if folder and not found:
        raise SourceUnavailable(f"{folder} has no jar; make jars brings them from Maven")
    return found


def check_jar(jar: Path) -> str:
    """Return the path of a jar.

    Raises:
        SourceUnavailable: it is missing, or Delta's or Iceberg's for another release of Spark.
    """
    import pyspark  # noqa: PLC0415 - as above

    wanted = _RELEASE_OF_JAR.match(jar.name)
    if wanted is not None and not pyspark.__version__.startswith(f"{wanted[1]}."):
        raise SourceUnavailable(
            f"{jar} is for Spark {wanted[1]} and PySpark is {pyspark.__version__}; take the jars "
            "of that package for this release"
        )
    if not jar.is_file():
        raise SourceUnavailable(f"the jar {jar} is missing; make jars copies the connector's")
    return str(jar.resolve())
