"""Finding a Java that Spark can use: 17 or newer, by JAVA_HOME or on the PATH."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from siltstone.pipeline.errors import SourceUnavailable

LEAST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 60


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home of the first Java that is new enough.

    Raises:
        SourceUnavailable: none is; the sentence says what was found instead.
    """
    too_old = ""
    for origin, home in _candidates(environ):
        version = read_version(home / "bin" / "java")
        if version >= LEAST:
            return home
        if version:
            too_old = f"; {origin} is Java {version}, which is too old"
    raise SourceUnavailable(
        f"Spark needs Java {LEAST} or newer and finds none{too_old}; install one (Debian: apt-get "
        "install openjdk-17-jre-headless)"
    )


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


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={environ['JAVA_HOME']}", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield on_path, Path(on_path).resolve().parents[1]
