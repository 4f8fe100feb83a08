"""A Spark session in which the data source and the jobs work, without its usual traps.

Workers run this interpreter, not just any ``python3``. Filters may be pushed down. Jars are named
one by one. A missing or old Java is reported in one sentence, and Spark logs little. Under
spark-submit nothing of its settings is changed.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.spark.interpreter import worker_python
from siltstone.pipeline.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
DEFAULTS: Final = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for small jobs and tests: the start takes a third less, the rest is slower."""
_CHECK: Final = "import siltstone.pipeline.reading.scan, sys; print(sys.version_info[:2])"
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

    Raises:
        SourceUnavailable: PySpark, Java or a jar is missing, or workers could not read topics.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra: it may be missing
    except ModuleNotFoundError as error:
        raise SourceUnavailable(
            "PySpark is not installed here; install siltstone with its extra, in a clone of it "
            "by: pip install '.[spark]'"
        ) from error
    settings = {**DEFAULTS, **(conf or {})}
    files = [check_jar(Path(jar)) for jar in jars]
    if files:
        settings["spark.jars"] = ",".join(files)
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


def prepare_environment(settings: dict[str, str]) -> None:
    """Set the interpreter, the Java and the logging of a JVM that is started from here.

    Raises:
        SourceUnavailable: there is no Java, or the workers' interpreter lacks this package.
    """
    own = worker_python() if settings["spark.master"].startswith("local[") else sys.executable
    python = os.environ.setdefault("PYSPARK_PYTHON", own)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", own)
    if python != own:
        check_worker(python)
    os.environ["JAVA_HOME"] = str(find_java().home)
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
            f"workers can not run PYSPARK_PYTHON={python}: {error}; {advice}"
        ) from error
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise SourceUnavailable(f"workers would run {python}, which fails: {reason}; {advice}")
    if done.stdout.strip() != str(tuple(sys.version_info[:2])):
        raise SourceUnavailable(
            f"workers would run {python}, another version of Python than the driver; {advice}"
        )


def check_jar(jar: Path) -> str:
    """Return the path of a jar.

    Raises:
        SourceUnavailable: it is not there.
    """
    if not jar.is_file():
        raise SourceUnavailable(f"the jar {jar} is not there; make jars copies the connector's")
    return str(jar.resolve())
