"""A walk through a page: which of its commands are typed, and in which order."""

from pathlib import Path

import pytest

from tools import walk

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PAGE = """
It takes Python (`apt-get install python3-dev`). The command `siltstone` is in `.venv`.

```console
$ make run
```

`export NAME=word` and `siltstone explain TOPIC`; `siltstone verify` checks what has stopped.

```sh
one
two
```

```python
print(1)
```

```yaml
a: b
```
`make run` again; `docker build .`
"""


def test_steps_are_what_a_page_tells_its_readers_to_type() -> None:
    """Each once; a name alone is no command, and only these languages count."""
    assert [step.text for step in walk.find_steps(PAGE)] == [
        "apt-get install python3-dev",
        "make run",
        "export NAME=word",
        "siltstone explain TOPIC",
        "siltstone verify",
        "one\ntwo\n",
        "print(1)\n",
        "docker build .",
    ]


def test_what_is_not_typed_has_a_reason_that_is_needed() -> None:
    """Each reason is that of a command of README."""
    steps = walk.find_steps(README)

    reasons = {step.reason for step in steps} - {None}
    assert reasons == set(walk.ELSEWHERE.values())
    assert sum(step.reason is None for step in steps) > 20


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, page: str, programs: str) -> Path:
    """Walk through a page with programs of shell in the place of all others; return what they did.

    `make run` is ready when it has been started.
    """
    done = folder / "done"
    tools = folder / "tools"
    tools.mkdir()
    for name in ("apt-get", "make", "siltstone", "one", "two", "clients/bin/python"):
        path = tools / name if "/" not in name else folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho $$ > {path}.pid\necho "{name} $*" >> {done}\n{programs}')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(walk, "_answers", lambda: "make run\n" in done.read_text())
    walk.walk(walk.find_steps(page), folder)
    return done


def test_a_walk_types_all_in_the_order_of_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A step that needs a stopped broker comes last; the system asks nothing when it installs."""
    done = play(monkeypatch, tmp_path, PAGE, 'case "$*" in run) exec sleep 60;; esac')

    assert done.read_text() == (
        "apt-get update --quiet\napt-get install --yes python3-dev\n"
        "make run\nsiltstone explain customers\none \ntwo \nclients/bin/python -c print(1)\n\n"
        "siltstone verify\n"
    )


def test_a_command_that_fails_ends_the_walk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the words of the page, and without the broker."""
    programs = 'case "$*" in run) exec sleep 60;; explain*) exit 3;; esac'

    with pytest.raises(walk.FailedError, match="`siltstone explain customers`, which ended with 3"):
        play(monkeypatch, tmp_path, PAGE, programs)

    assert "siltstone verify" not in (tmp_path / "done").read_text()
    assert not Path("/proc", (tmp_path / "tools" / "make.pid").read_text().strip()).exists()


def test_a_snippet_of_pytest_is_run_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder of its own, under the name in its first line."""
    page = f"{PAGE}\n```python\n# test_orders.py\nimport pytest\n```\n"

    done = play(monkeypatch, tmp_path, page, 'case "$*" in run) exec sleep 60;; esac')

    assert "clients/bin/python -m pytest -q test_orders.py\n" in done.read_text()
