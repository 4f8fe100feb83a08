"""``python -m siltstone.pipeline doctor``: says what is missing, and how to get it.

Packages that may be missing are imported only after they were looked for.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.pipeline.command.progress import counted
from siltstone.pipeline.errors import PipelineError, SourceUnavailable
from siltstone.pipeline.spark.java import TRIED, find_java
from siltstone.pipeline.spark.releases import check_release

LEAST_ARROW: Final = 18
COMFORTABLE_BYTES: Final = 2 << 30
EXTRA: Final = "in a clone of siltstone: pip install '.[spark]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    name: str
    is_fine: bool
    text: str
    """The version or place, or the fault and the remedy."""
    is_needed: bool = True


def examine(data: Path | None = None, jars: Path | None = None) -> list[Finding]:
    """Check this machine for everything that reading topics needs."""
    looks: list[Callable[[], Finding]] = [
        _python,
        lambda: _package("pyspark", check_release),
        lambda: _package("pyarrow", _check_arrow),
        _java,
        _worker,
        lambda: _sink("deltalake"),
        lambda: _sink("pyiceberg"),
        lambda: _connector(jars),
        _memory,
    ]
    return [look() for look in looks] + ([_data(data)] if data is not None else [])


def main(arguments: Sequence[str]) -> int:
    """Print the findings; 1 if something is missing that every job needs."""
    parser = argparse.ArgumentParser(prog="pipeline doctor")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the broker's log directory")
    parser.add_argument("--jars", type=Path, metavar="DIR", help="jars of Spark's Kafka connector")
    options = parser.parse_args(arguments)
    findings = examine(options.data, options.jars)
    for line in lines(findings):
        sys.stdout.write(f"{line}\n")
    return int(any(not each.is_fine and each.is_needed for each in findings))


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding."""
    width = max(len(each.name) for each in findings)
    for each in findings:
        mark = "ok     " if each.is_fine else "MISSING" if each.is_needed else "without"
        yield f"{mark}  {each.name:<{width}}  {each.text}"


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(name="python", is_fine=True, text=f"{version}, {sys.executable}")


def _package(name: str, check: Callable[[str], None]) -> Finding:
    try:
        version = importlib.metadata.version(name)
        check(version)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name=name, is_fine=False, text=f"not installed: {EXTRA}")
    except PipelineError as error:
        return Finding(name=name, is_fine=False, text=str(error))
    return Finding(name=name, is_fine=True, text=version)


def _check_arrow(version: str) -> None:
    if int(version.partition(".")[0]) < LEAST_ARROW:
        wanted = f"pyarrow>={LEAST_ARROW}"
        raise SourceUnavailable(f"{version} is too old: pip install '{wanted}'")


def _java() -> Finding:
    try:
        java = find_java()
    except PipelineError as error:
        return Finding(name="java", is_fine=False, text=str(error))
    tried = "" if java.version in TRIED else f"; {TRIED[0]} and {TRIED[1]} are what is tested"
    return Finding(name="java", is_fine=True, text=f"{java.version}, {java.origin}{tried}")


def _worker() -> Finding:
    python = os.environ.get("PYSPARK_PYTHON")
    if not python:
        text = "this interpreter, where sessions come from siltstone.pipeline.spark.session"
        return Finding(name="workers", is_fine=True, text=text)
    from siltstone.pipeline.spark.session import check_worker  # noqa: PLC0415 - not needed otherwise

    try:
        check_worker(python)
    except PipelineError as error:
        return Finding(name="workers", is_fine=False, text=str(error))
    return Finding(name="workers", is_fine=True, text=python)


def _sink(name: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        text = f"not installed, so no such tables: {EXTRA}"
        return Finding(name=name, is_fine=False, is_needed=False, text=text)
    return Finding(name=name, is_fine=True, text=importlib.metadata.version(name))


def _connector(folder: Path | None) -> Finding:
    found = sorted(folder.glob("spark-sql-kafka-*.jar")) if folder is not None else []
    if found:
        return Finding(name="connector", is_fine=True, text=found[0].name)
    text = (
        "no jars of Spark's own Kafka source, which only stream --via connector needs: make jars, "
        "then --jars .cache/connector-jars"
    )
    return Finding(name="connector", is_fine=False, is_needed=False, text=text)


def _memory() -> Finding:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = shutil.disk_usage(Path.cwd()).free
    text = f"{size >> 20} MB, and {free >> 20} MB free on the disk here"
    if size < COMFORTABLE_BYTES:
        text += "; a session takes about 1 GB, so give it --master 'local[1]'"
    return Finding(name="memory", is_fine=size >= COMFORTABLE_BYTES, is_needed=False, text=text)


def _data(data: Path) -> Finding:
    from siltstone.pipeline.client.pins import find_control, topics  # noqa: PLC0415 - only if it is asked for
    from siltstone.storage.directory.lock import is_held  # noqa: PLC0415 - likewise

    if not data.is_dir():
        text = f"{data} is no folder here; name the log directory, or read with transport=fetch"
        return Finding(name="data", is_fine=False, text=text)
    if not is_held(data):
        text = f"{data}: no broker works there, so it is read as an archive"
        return Finding(name="data", is_fine=True, text=text)
    try:
        count = len(topics(find_control(data)))
    except PipelineError as error:
        return Finding(name="data", is_fine=False, text=str(error))
    text = f"{data}: a broker serves {counted(count, 'topic')} there and can pin them"
    return Finding(name="data", is_fine=True, text=text)
