"""Siltstone beside a project that has packages of the same names as its folders."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.built import build_wheel, unpack
from tests.support.programs import output_of

ROOT = Path(__file__).parents[1]
OWN = ("broker", "cleaner", "config", "pipeline", "protocol", "storage")
TEST = """
import config
import storage

import siltstone.broker.server
import siltstone.pipeline.command.cli
import siltstone.storage.manager

def test_both_are_there():
    assert config.OWNER == storage.OWNER == "project"
    assert siltstone.storage.manager.LogManager
"""
PATHS = """
import os, sys
import siltstone.broker.server, siltstone.cleaner.manager, siltstone.pipeline.command.cli
import siltstone.storage.manager
home = os.path.dirname(os.path.realpath(siltstone.__path__[0])) + os.sep
places = {}
for name, module in list(sys.modules.items()):
    path = os.path.realpath(getattr(module, "__file__", None) or "/")
    if path.startswith(home) and "site-packages" not in path:
        places.setdefault(path, set()).add(name)
assert len(places) > 100, len(places)
print([sorted(names) for names in places.values() if len(names) > 1])
print(os.path.dirname(siltstone.__file__))
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the project first, then the wheel."""
    project = tmp_path_factory.mktemp("project")
    for name in OWN:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text("OWNER = 'project'\n")
    (project / "test_project.py").write_text(TEST)
    site = tmp_path_factory.mktemp("site")
    unpack(build_wheel(tmp_path_factory.mktemp("dist")), site)
    return {**os.environ, "PYTHONPATH": f"{project}:{site}", "PROJECT": str(project)}


def run(environ: dict[str, str], *words: str) -> str:
    """Run Python in the project's folder and return what it prints."""
    return output_of([sys.executable, *words], cwd=environ["PROJECT"], env=environ)


def test_every_file_is_one_module(environ: dict[str, str]) -> None:
    """Nothing of ours is imported by two names, neither from a wheel nor from this repository."""
    here = {**environ, "PYTHONPATH": str(ROOT)}
    for surroundings in (environ, here):
        twice, place = run(surroundings, "-c", PATHS).splitlines()
        assert twice == "[]"
        assert (Path(place).parent == ROOT) == (surroundings is here)


@pytest.mark.slow
def test_tests_of_the_project_run(environ: dict[str, str]) -> None:
    """Pytest collects a test that imports the project's packages and ours."""
    said = run(environ, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_project.py")

    assert "1 passed" in said


def test_the_pipeline_runs(environ: dict[str, str]) -> None:
    """Its command line finds its own modules."""
    assert "snapshot" in run(environ, "-m", "siltstone.pipeline", "--help")


def test_the_broker_serves(environ: dict[str, str], tmp_path: Path) -> None:
    """A broker of the wheel becomes ready, which takes a record's round trip, and stops."""
    process = SiltstoneProcess(tmp_path / "broker")
    words = [sys.executable, "-m", "siltstone.broker", *process.command("serve")[1:]]
    process.daemon.launch(words, environ={**environ, "PYTHONUNBUFFERED": "1"})
    try:
        process.daemon.wait_for(r"(^|\s)ready(\s|$)", 30)
        assert process.stop() == 0
    finally:
        process.close()
