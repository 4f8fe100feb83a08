"""Java, interpreters and jars: found, or one sentence on what to do."""

import re
import sys
from pathlib import Path

import pyspark
import pytest

from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.source.datasource import SiltstoneSource
from siltstone.pipeline.spark import java, session
from siltstone.pipeline.spark.releases import SUPPORTED, check_release

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"


def fake_java(home: Path, version: str) -> Path:
    """Write a Java that says its version and prints its arguments."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\n'
        'for each do echo "$each"; done\n'
    )
    script.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)]
)
def test_a_java_tells_its_version(tmp_path: Path, text: str, version: int) -> None:
    """Major versions are read from both styles of numbers."""
    home = fake_java(tmp_path / "java", text)

    assert java.read_version(home / "bin" / "java") == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """A user that sets JAVA_HOME means it."""
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}

    assert java.find_java(environ) == home
    assert java.find_java({"PATH": str(other / "bin")}) == other


def test_no_java_or_an_old_one_is_one_sentence(tmp_path: Path) -> None:
    """The sentence says what was found, what is needed and how to get it."""
    old = fake_java(tmp_path / "old", "1.8.0")

    with pytest.raises(SourceUnavailable, match=r"needs Java 17 or newer and finds none; install"):
        java.find_java({"PATH": str(tmp_path)})
    with pytest.raises(SourceUnavailable, match=r"is Java 8, which is too old; install one"):
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})


def test_a_worker_without_us_is_told_before_a_job_fails(tmp_path: Path) -> None:
    """An interpreter that cannot read topics is named, with what to do."""
    stranger = tmp_path / "python"
    stranger.write_text(
        "#!/bin/sh\necho 'ModuleNotFoundError: No module named pyarrow' >&2\nexit 1\n"
    )
    stranger.chmod(0o755)

    session.check_worker(sys.executable)
    with pytest.raises(SourceUnavailable, match="No module named pyarrow; unset PYSPARK_PYTHON"):
        session.check_worker(str(stranger))
    with pytest.raises(SourceUnavailable, match="workers cannot run PYSPARK_PYTHON="):
        session.check_worker(str(tmp_path / "nobody"))
    stranger.write_text("#!/bin/sh\necho '(2, 7)'\n")
    with pytest.raises(SourceUnavailable, match="another version of Python"):
        session.check_worker(str(stranger))


@pytest.mark.parametrize(
    "jar", ["delta-spark_1.0_2.13-4.4.0.jar", "iceberg-spark-runtime-1.0_2.13-1.12.0.jar"]
)
def test_a_package_for_another_release_is_named(tmp_path: Path, jar: str) -> None:
    """Spark would end with an error of Java about a method."""
    with pytest.raises(SourceUnavailable, match=r"jar is for Spark 1\.0 and PySpark is"):
        session.check_jar(tmp_path / jar)


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    """Jars are looked for before a JVM starts."""
    with pytest.raises(SourceUnavailable, match=r"the jar .*x\.jar is missing"):
        session.check_jar(tmp_path / "x.jar")


def test_releases_of_the_table_are_taken() -> None:
    """That of the documents, and each in all of its versions."""
    table = re.findall(r"^\| (4\.\d+) \|", PAGE.read_text(), re.MULTILINE)

    assert tuple(table) == SUPPORTED
    for release in table:
        check_release(f"{release}.4")
        check_release(f"{release}.0.dev1")


@pytest.mark.parametrize("version", ["4.0.2", "4.4.0.dev1", "3.5.9", "5.0.0"])
def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """By the session before Java starts and by the source: the same sentence."""
    sentence = (
        f"Spark {version} is not one of the releases that are supported here, 4.1, 4.2 and 4.3"
    )
    monkeypatch.setattr(pyspark, "__version__", version)

    with pytest.raises(SourceUnavailable, match=sentence):
        session.open_session("tests")
    with pytest.raises(SourceUnavailable, match=sentence):
        SiltstoneSource({})
