"""The README's commands, typed."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.console import write_scripts
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.missing import require
from tests.support.programs import output_of, run_to_end
from tests.support.repositories import make_repository

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker
README = Path(__file__).parents[2] / "README.md"


def block(language: str, word: str) -> str:
    """Return the README's one code block of a language that has a word in it."""
    text = README.read_text()
    (found,) = [
        code for code in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if word in code
    ]
    return str(found)


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    """A broker of this test alone: the README's examples name topics that others of them make."""
    own_broker.start()
    return own_broker


@pytest.fixture
def scripts(kafka_tools: KafkaTools, tmp_path: Path) -> Path:
    """A folder with Kafka's shell scripts."""
    return write_scripts(tmp_path / "bin", kafka_tools.jars)


def typed(code: str, broker: Broker, path: Path) -> str:
    """Run a shell block against the broker and return what it prints."""
    return output_of(
        ["sh", "-eu", "-c", code.replace("127.0.0.1:9092", broker.bootstrap)],
        timeout=50,
        env={"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"},
    )


@pytest.mark.java
def test_kcat_and_console_tools_do_what_the_readme_says(broker: Broker, scripts: Path) -> None:
    """The two shell blocks run as they stand, the second reads what the first wrote."""
    require("kcat")

    with_kcat = typed(block("sh", "kcat"), broker, scripts)
    with_tools = typed(block("sh", "kafka-topics.sh"), broker, scripts)

    assert with_kcat == "fruit:apple\ncolour:green\n"
    assert "Created topic orders." in with_tools
    assert re.findall(r"orders:\d:(\d)", with_tools).count("1") == 1
    assert "Completed updating config for topic orders." in with_tools
    assert "apple\ngreen\n" in with_tools


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository with the examples, and an environment with what README installs.

    What is installed is linked from the environment of the tests, so that nothing is fetched, and
    so it is their Python that stands for the README's.
    """
    folder = make_repository(tmp_path_factory.mktemp("readme") / "clone")
    shutil.copytree(README.parent / "examples", folder / "examples")
    lines = block("console", "-m venv ").splitlines()
    made, installed = (line.removeprefix("$ ") for line in lines)
    python, *arguments = shlex.split(made)
    assert python == "python3"
    subprocess.run([sys.executable, *arguments, "--without-pip"], cwd=folder, check=True)
    (site,) = folder.glob("clients/lib/python3*/site-packages")
    pip, command, *names = shlex.split(installed)
    assert (pip, command) == ("clients/bin/pip", "install")
    for name in names:
        for top in {each.parts[0] for each in distribution(name).files or ()} - {".."}:
            (site / top).symlink_to(str(distribution(name).locate_file(top)))
    return folder


def test_kafka_python_does_what_the_readme_says(broker: Broker, clone: Path) -> None:
    """The Python block runs as it stands, where nothing is installed but what README says."""
    code = block("python", "compression_type").replace("127.0.0.1:9092", broker.bootstrap)

    done = run_to_end(["clients/bin/python", "-c", code], cwd=clone, timeout=50)

    assert done.stdout == "0 b'en' b'good morning'\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["git_changelog", "exactly_once"])
def test_the_examples_do_what_the_readme_says(broker: Broker, clone: Path, name: str) -> None:
    """Each command of theirs, as typed there, and the last of them proves what the topic holds."""
    for line in block("console", f"examples/{name}.py").splitlines():
        done = run_to_end(
            [*shlex.split(line.removeprefix("$ ")), "--bootstrap-server", broker.bootstrap],
            cwd=clone,
            timeout=50,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
