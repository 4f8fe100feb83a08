"""Each planted fault still fits the product; a copy that has one behaves so, compiled or not."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulator import planted
from tests.simulator.planted import PLANTED, ROOT, Patch, applied, apply, environment, read_patch
from tests.simulator.searching import read_found
from tools.sources import parse

PAGE = Path(__file__).parent / "planted" / "README.md"
ROW = re.compile(r"^\| `([a-z-]+)` \|.*\| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
FENCED = """
from siltstone.broker.transactions.ending import fencing
from siltstone.broker.transactions.initialising import begin
print(fencing(begin(1, 1000, 0), 2).is_commit)
raise SystemExit(3)
"""
GOES_BACK = """
from siltstone.broker.groups.group_offsets import GroupOffsets
group = GroupOffsets()
group.put_pending(1, ("t", 0), b"old")
group.put("t", 0, b"new")
group.end(1, True)
print(group.committed)
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the product without a fault."""
    folder = tmp_path_factory.mktemp("product")
    planted.copy_product(folder)
    return folder


@pytest.mark.parametrize("patch", [pytest.param(each, id=name) for name, each in PLANTED.items()])
def test_each_fits_the_product(patch: Patch, product: Path) -> None:
    """It changes code of the product, and the changed code can be parsed."""
    apply(patch, product)
    try:
        for file in patch.files:
            assert file.partition("/")[0] in planted.PRODUCT
            assert file.endswith((".py", ".pyx"))
            text = (product / file).read_text()
            assert text != (ROOT / file).read_text()
            parse(Path(file), text)
    finally:
        apply(patch, product, "--reverse")
    assert patch.files


def test_the_page_names_a_test_for_each() -> None:
    """The test fails where the fault is planted."""
    rows = ROW.findall(PAGE.read_text())

    assert [name for name, _, _ in rows] == sorted(PLANTED)
    assert [each for each in rows if f"def {each[2]}(" not in (ROOT / each[1]).read_text()] == []


def test_seeds_are_noted_of_patches_that_exist() -> None:
    """A seed that has found a fault has the name of its patch."""
    assert read_found().keys() <= PLANTED.keys()


def test_a_command_runs_with_the_fault(capfd: pytest.CaptureFixture[str]) -> None:
    """Its imports are those of the copy, and its exit status is passed on."""
    told = planted.main(["show-an-abandoned-one", "--", sys.executable, "-c", FENCED])

    assert capfd.readouterr().out == "True\n"
    assert told == 3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_changed_kernel_is_compiled_once(tmp_path: Path) -> None:
    """The second copy links to the extension of the first one."""
    if not (ROOT / ".cache" / "kernel-tools" / "Cython").is_dir():
        pytest.skip("kernel-tools: Cython is missing")
    patch = PLANTED["let-a-commit-go-back"]
    trees = [applied(patch, tmp_path / name) for name in ("one", "two")]
    extensions = {
        (each.resolve(), each.stat().st_mtime_ns)
        for tree in trees
        for each in (tree / "broker" / "groups").glob("*.so")
    }
    told = subprocess.run(
        [sys.executable, "-c", GOES_BACK],
        cwd=trees[1],
        capture_output=True,
        check=True,
        text=True,
        env=environment(trees[1]),
    )

    assert len(extensions) == 1
    assert told.stdout == "{'t': {0: b'old'}}\n"


def test_a_patch_of_other_code_is_refused(product: Path, tmp_path: Path) -> None:
    """The error says which file must be made again."""
    patch = PLANTED["reuse"]
    path = tmp_path / "old.patch"
    path.write_text(patch.path.read_text().replace("position + header.size", "position"))

    with pytest.raises(ValueError, match=r"old\.patch must be made again.*: error: patch failed"):
        apply(replace(patch, path=path), product)


def test_a_kernel_that_cannot_be_compiled_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says what to make first."""
    monkeypatch.setattr(planted, "_KERNEL_TOOLS", tmp_path)
    monkeypatch.setattr(planted, "_COMPILED", tmp_path)
    monkeypatch.setattr(planted, "find_spec", lambda _: None)

    assert planted.main(["let-a-commit-go-back", "--", "true"]) == 2
    assert capsys.readouterr().err == (
        "siltstone/broker/groups/group_offsets.pyx is changed and must be compiled: run make "
        "kernel-tools\n"
    )


def test_a_patch_says_what_it_is(tmp_path: Path) -> None:
    """Its first three lines are the fault, how it shows, and what it needs."""
    path = tmp_path / "bare.patch"
    path.write_text("--- a/broker/api.py\n+++ b/broker/api.py\n")

    with pytest.raises(ValueError, match=r"bare\.patch does not begin with a fault"):
        read_patch(path)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how to ask; without a name the faults are listed."""
    assert planted.main(["nothing", "--", "true"]) == 2
    assert planted.main([]) == 0

    told = capsys.readouterr()
    assert told.err.startswith("python -m tests.simulator.planted NAME -- COMMAND")
    assert len(told.out.splitlines()) == len(PLANTED)
