"""What Spark runs as its workers: this interpreter, with the installed PySpark before any zip."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pyspark

from siltstone.pipeline.spark.session import worker_python, write_interpreter


def run(script: str, code: str, *path: str) -> list[str]:
    """Return the lines that a program prints, run as Spark runs its workers."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [script, "-c", code, "an argument", "*"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_workers_find_the_installed_pyspark_before_a_zip(tmp_path: Path) -> None:
    """The rest of their path is what Spark gives them, and so are their arguments.

    The folder's name is one that a shell would take apart.
    """
    with ZipFile(tmp_path / "pyspark.zip", "w") as file:
        file.writestr("pyspark/__init__.py", "raise ImportError('from the zip')")
        file.writestr("elsewhere.py", "found = True")
    script = str(write_interpreter(tmp_path / "o'brien's $HOME"))

    code = "import sys, os, pyspark, elsewhere\nprint(os.path.realpath(pyspark.__file__))\n"
    code += "print(sys.executable)\nprint(sys.argv[1:])"
    found = run(script, code, str(tmp_path / "pyspark.zip"))

    place = os.path.realpath(pyspark.__file__)
    assert found == [place, sys.executable, "['an argument', '*']"]


def test_it_is_written_again_in_its_place(tmp_path: Path) -> None:
    """Sessions that start at once share it."""
    first = write_interpreter(tmp_path)

    assert write_interpreter(tmp_path) == first
    assert sorted(each.name for each in first.parent.iterdir()) == ["packages", "python"]


def test_another_spark_or_no_cache_leaves_this_interpreter(tmp_path: Path) -> None:
    """A Spark of its own brings its PySpark; a folder that can not be made is no fault."""
    (tmp_path / "file").touch()

    assert worker_python({"SPARK_HOME": "/opt/spark", "HOME": "/"}) == sys.executable
    assert worker_python({"XDG_CACHE_HOME": str(tmp_path / "file")}) == sys.executable
    assert worker_python({"XDG_CACHE_HOME": str(tmp_path)}).startswith(str(tmp_path))
