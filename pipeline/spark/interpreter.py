"""The interpreter that Spark runs for its workers on this machine: this one, by a script.

Spark puts a zip of PySpark first on the path of its workers. Each process compiles what it imports
from a zip, which takes 0.8 s of processor time. The script puts the installed package before it,
whose modules are compiled: 0.2 s.
"""

import hashlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("pyspark", "py4j")
_SCRIPT: Final = """\
#!/bin/sh
PYTHONPATH={packages}"${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec {python} "$@"
"""


def worker_python(environ: Mapping[str, str] = os.environ) -> str:
    """Return what workers should run: the script, or this interpreter if there can be none.

    A Spark of the user's (``SPARK_HOME``) has the PySpark that fits it in its zip.
    """
    if "SPARK_HOME" in environ:
        return sys.executable
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        return str(write_interpreter(cache / "siltstone"))
    except OSError:
        return sys.executable  # a slow start is no reason to fail


def write_interpreter(folder: Path) -> Path:
    """Make the script and the folder of packages that it names, and return the script.

    Raises:
        OSError: the folder cannot be written.
    """
    sources = {name: _place(name) for name in _PACKAGES}
    facts = repr((sys.executable, sorted(sources.items()))).encode()
    home = folder / f"python-{hashlib.sha256(facts).hexdigest()[:16]}"
    packages, script = home / "packages", home / "python"
    packages.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        if source:
            with suppress(FileExistsError):
                (packages / name).symlink_to(source)
    partial = script.with_name(f"python.{os.getpid()}")
    words = {"packages": shlex.quote(str(packages)), "python": shlex.quote(sys.executable)}
    partial.write_text(_SCRIPT.format(**words), encoding="utf-8")
    partial.chmod(0o755)
    partial.replace(script)
    return script


def _place(name: str) -> str:
    spec = importlib.util.find_spec(name)
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""
