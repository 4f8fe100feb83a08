"""A tag: notes of a version, and workflows whose steps run on any machine."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from siltstone import VERSION
from tools import release

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    """Return all steps of a workflow."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_notes_are_the_section_of_the_version() -> None:
    """Without its heading, and without the versions around it."""
    text = "# Changelog\n\n## [0.2.0] - today\n\n- two\n\n## [0.1.0] - before\n\n### A\n\n- one\n"

    assert release.release_notes(text, "0.1.0") == "### A\n\n- one\n"
    assert release.release_notes(text, "0.2.0") == "- two\n"
    with pytest.raises(release.FailedError, match=r"no section for 0\.3\.0"):
        release.release_notes(text, "0.3.0")


def test_the_changelog_has_this_version() -> None:
    """A tag can be made of it."""
    assert release.release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), VERSION)


def test_a_tag_of_another_version_is_refused() -> None:
    """The sentence says which file has the version."""
    release.check_tag(f"v{VERSION}")
    with pytest.raises(release.FailedError, match=r"siltstone/__init__\.py"):
        release.check_tag("v9.9.9")


def test_an_installation_that_has_grown_is_refused() -> None:
    """A try of a wheel says the size; one that says none is no try."""
    release.check_size("to the first acknowledgement 9000 ms, installed 43945 KiB\n")
    for told in ("installed 43946 KiB", ""):
        with pytest.raises(release.FailedError, match="43945 KiB"):
            release.check_size(told)


def test_a_stage_that_cannot_be_tried_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no failure, and it is tried again by the next run."""

    def lacking() -> None:
        """A stage."""
        raise release.UntriedError("Python 2.0: this machine has none")

    monkeypatch.setattr(release, "NOTED", tmp_path)
    monkeypatch.setattr(release, "_run", lambda command, _: "f00d" if "HEAD" in command else "")
    for _ in range(2):
        release.check([lacking])

        told = capsys.readouterr().out
        assert "not tried: Python 2.0: this machine has none\n" in told
        assert "passed" not in told


def test_actions_are_pinned_by_digest() -> None:
    """A tag can be moved to other code; the comment says which version a digest is."""
    for workflow in WORKFLOWS:
        for line in re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8")):
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", line), line


def test_what_a_step_does_is_a_command_of_the_repository() -> None:
    """A step installs packages of the system, trusts the clone, or runs a target that exists."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for workflow in WORKFLOWS:
        for step in steps(workflow):
            command = step.get("run", "make")
            if command.startswith("make "):
                for target in re.findall(r"\b[a-z-]+\b", command.partition(" ")[2].split("=")[0]):
                    assert re.search(
                        rf"^(?:[\w -]+ )?{target}(?: [\w -]+)?:", makefile, re.MULTILINE
                    ), target
            else:
                allowed = ("make", "apt-get update && ", "git config ", ".ci/run", "gh release ")
                assert command.startswith(allowed), command


def test_no_token_outlives_its_step() -> None:
    """Jobs have the rights that they need alone, and a clone keeps no password."""
    for workflow in WORKFLOWS:
        whole = yaml.safe_load(workflow.read_text(encoding="utf-8"))
        assert whole["permissions"] == {}
        for step in steps(workflow):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_the_page_says_what_is_not_tried() -> None:
    """In the words that the end of a check prints."""
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    (section,) = re.findall(
        r"^## What is not tried.*?\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL
    )

    assert tuple(line.removeprefix("* ") for line in section.splitlines()) == release.UNTRIED


def test_a_stage_is_not_given_the_arguments_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make release-check ARGS=…` has them in MAKEFLAGS, which a make of a stage would obey."""
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=--stages\\ image")
    monkeypatch.setenv("MAKELEVEL", "1")

    told = release._run(["env"], ROOT, CC="zig")

    assert "MAKE" not in told
    assert "\nCC=zig\n" in f"\n{told}"


def test_a_wheel_is_tried_with_what_the_example_says() -> None:
    """The clients and tools of its README, and the wheel in the place of the clone."""
    page = (ROOT / "examples" / "testing" / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^\$ pip install \.\./\.\. (.*)$", page, re.MULTILINE)

    assert f"\npip install {told}\n" in release._TRY
