"""The examples of docs/testing.md, run."""

import json
import os
import re
import shlex
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.broker import siltstone
from tests.support.daemon import Daemon
from tests.support.programs import output_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"


def blocks(language: str, page: Path = PAGE) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run(folder: Path, *words: str) -> str:
    """Run Python in a folder and return what it prints."""
    return output_of(
        [sys.executable, *words],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )


def test_what_is_for_pytest(tmp_path: Path) -> None:
    """All of it is one project, with the conftest.py of the page."""
    count = 0
    for number, code in enumerate(blocks("python")):
        if code.startswith("# conftest.py\n"):
            (tmp_path / "conftest.py").write_text(code)
        elif "\ndef test_" in code or "\nclass " in code:
            count += len(re.findall(r"def test_", code))
            (tmp_path / f"test_block_{number}.py").write_text(code)

    said = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")

    assert count == 5
    assert f"{count} passed" in said


def test_what_the_readme_shows(tmp_path: Path) -> None:
    """As it stands."""
    (code,) = (each for each in blocks("python", ROOT / "README.md") if "kafka_topic" in each)
    (tmp_path / "test_readme.py").write_text(code)

    said = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_readme.py")

    assert "1 passed" in said


def test_what_is_run_by_itself(tmp_path: Path) -> None:
    """The class of unittest, and the program with asyncio."""
    programs = [code for code in blocks("python") if "__main__" in code or "asyncio.run" in code]
    for number, code in enumerate(programs):
        (tmp_path / f"program_{number}.py").write_text(code)
        run(tmp_path, f"program_{number}.py")

    assert len(programs) == 2


def test_from_other_languages(tmp_path: Path) -> None:
    """The command starts a broker; each page of the table does what it says."""
    (command,) = blocks("console")
    line = command.removeprefix("$ ").replace("\\\n", "")
    words = shlex.split(line.replace("/dev/shm/test", str(tmp_path / "data")))
    words[0] = siltstone()
    words[words.index("ready.json")] = str(tmp_path / "ready.json")
    daemon = Daemon(tmp_path / "log")
    daemon.launch(words)
    try:
        facts = json.loads(wait_until((tmp_path / "ready.json").read_bytes, "it", despite=OSError))
        token = (Path(facts["log_dirs"][0]) / ".siltstone-control-token").read_text().strip()
        pages = re.findall(r"^\| `POST (/\S+)` \|", PAGE.read_text(), re.MULTILINE)
        state = b""
        for page in pages:
            asked = urllib.request.Request(f"http://{facts['http']}{page}", state)
            asked.add_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(asked) as answer:
                assert answer.status == 200
                state = answer.read()
        assert len(pages) == 6
    finally:
        daemon.kill()
