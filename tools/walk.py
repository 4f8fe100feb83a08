"""Types the commands of README on a bare machine, in its order, with what it installs before each.

`python3 -m tools.walk`, in a clone that is used for nothing else, as root, on a Debian that has
only Python: it installs packages of the system, and the broker takes the ports of its defaults.
`make release-check` does so in a fresh root. What is not typed is in `ELSEWHERE`, with the reason.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]
START: Final = "make run"
PAGE: Final = "http://127.0.0.1:9464/readyz"
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "make test-all": ".ci/run runs it",
        "make test": "make test-debian runs it in such a root",
        "uv tool install .": "it builds what `pip install .` builds, which is typed",
        "pipx install .": "it builds what `pip install .` builds, which is typed",
        "siltstone serve": "make run has started it",
        "kafka-topics.sh": "it needs a JVM and Kafka's tools: tests/clients/test_readme.py",
        "docker ": "it needs an engine: make image-check builds and runs the image without one",
    }
)
"""How a command begins that is not typed, and where it is run instead."""
_STOPPED: Final = "siltstone verify"
_TOPIC: Final = "customers"
_PYTHON: Final = "clients/bin/python"
_COMMANDS: Final = ("apt-get", "docker", "export", "make", "pipx", "siltstone", "uv")
_CODE: Final = re.compile(r"^```(\w+)\n(.*?)^```$|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (test_\w+\.py)\n")
_START_SECONDS: Final = 1800
_STOP_SECONDS: Final = 60


class FailedError(Exception):
    """A command of the page failed; the text says which."""


class Step(NamedTuple):
    """A command or a piece of Python, as it stands on the page."""

    language: str
    text: str

    @property
    def reason(self) -> str | None:
        """Why it is not typed; None if it is typed."""
        found = (why for begin, why in ELSEWHERE.items() if self.text.startswith(begin))
        return next(found, None)


def find_steps(page: str) -> list[Step]:
    """Return what a page tells its readers to type, each once, in its order."""
    found: list[Step] = []
    for language, block, inline in _CODE.findall(page):
        if language == "console":
            found += [Step("sh", line[2:]) for line in block.splitlines() if line[:2] == "$ "]
        elif language in {"sh", "python"}:
            found.append(Step(language, block))
        elif inline.partition(" ")[0] in _COMMANDS and " " in inline:
            found.append(Step("sh", inline))
    return list(dict.fromkeys(found))


def walk(steps: Sequence[Step], folder: Path) -> None:
    """Type the steps in a folder, and at the end what needs a stopped broker.

    Raises:
        FailedError: One has failed, or the broker did not start or stop.
    """
    begin = [step.text for step in steps].index(START)
    last = [step for step in steps if step.text == _STOPPED]
    typed = [step for step in steps if step.reason is None and step not in last]
    exports = [step.text for step in typed if step.text.startswith("export ")]
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    _type(Step("sh", "apt-get update --quiet"), folder, [])
    for step in steps[:begin]:
        _type(step, folder, [])
    with _broker(folder):
        for step in typed[typed.index(steps[begin]) + 1 :]:
            _type(step, folder, exports)
    for step in last:
        _type(step, folder, exports)


@contextmanager
def _broker(folder: Path) -> Iterator[None]:
    """Start the broker as the page says, wait until it serves clients, and end it by Ctrl-C."""
    sys.stdout.write(f"$ {START}\n")
    sys.stdout.flush()
    began = time.monotonic()
    running = subprocess.Popen(["sh", "-c", START], cwd=folder, start_new_session=True)  # noqa: S603, S607 - README's
    try:
        while not _answers():
            if running.poll() is not None or time.monotonic() - began > _START_SECONDS:
                raise FailedError(f"`{START}` has no broker after {time.monotonic() - began:.0f} s")
            time.sleep(0.2)
        sys.stdout.write(f"(ready after {time.monotonic() - began:.0f} s)\n")
        yield
    finally:
        os.killpg(running.pid, signal.SIGINT)
        try:
            running.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise FailedError(f"the broker runs {_STOP_SECONDS} s after Ctrl-C") from None


def _answers() -> bool:
    try:
        with urllib.request.urlopen(PAGE, timeout=5):
            return True
    except OSError:
        return False


def _type(step: Step, folder: Path, exports: Sequence[str]) -> None:
    text = step.text.replace("TOPIC", _TOPIC).replace("apt-get install", "apt-get install --yes")
    command = ["sh", "-euc", "\n".join([*exports, text])]
    if step.language == "python":
        command = [str(folder / _PYTHON), "-c", text]
    name = _FILE.match(text)
    if name is not None:  # a project of its own, since a clone has settings for pytest
        folder = Path(tempfile.mkdtemp())
        (folder / name[1]).write_text(text, encoding="utf-8")
        command[1:] = ["-m", "pytest", "-q", name[1]]
    sys.stdout.write(f"$ {text.rstrip()}\n")
    sys.stdout.flush()
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603 - README's
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.stdout.write(done.stdout)
        raise FailedError(f"README says `{text.rstrip()}`, which ended with {done.returncode}")
    sys.stdout.write(f"({time.monotonic() - began:.1f} s)\n")


def main() -> int:
    """Walk through README; tell what is not typed, and why."""
    steps = find_steps((ROOT / "README.md").read_text(encoding="utf-8"))
    try:
        walk(steps, ROOT)
    except FailedError as failed:
        sys.stdout.write(f"{failed}\n")
        return 1
    for step in steps:
        if step.reason is not None:
            sys.stdout.write(f"not typed: {step.text.splitlines()[0]}: {step.reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
