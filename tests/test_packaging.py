"""The files that are built and shipped, and that the three lists of dependencies are one."""

import json
import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from siltstone import VERSION
from tests.support.built import build, copy_tree, unpack
from tests.support.programs import output_of, run_to_end

ROOT = Path(__file__).parents[1]
PACKAGES = {"siltstone", "pyspark_siltstone"}
LISTED = """
import json, sys
from pathlib import Path
import hatch_build
hatch_build.write_constants(Path(sys.argv[1]))
print(json.dumps([hatch_build.KERNELS, hatch_build.DEPENDS]))
"""
LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
"""
LOCKS = {
    "requirements.lock": ["test", "spark", "oauth"],
    "tests/requirements.lock": ["test", "oauth"],
    "docker/requirements.lock": ["oauth"],
}


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_package_has_the_version_that_the_broker_says(built: Path) -> None:
    """The one place that has it is the constant that a start reads."""
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]

    assert f"\nVersion: {VERSION}\n" in archive.read(metadata).decode()


def test_nobody_is_told_to_install_a_package_that_is_not_ours() -> None:
    """The name in the index belongs to nobody here: hints and pages install a clone."""
    told = re.compile(r"(pipx?|uv tool) install\s+['\"]*siltstone\b")
    listed = run_to_end(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, check=True)
    files = [name for name in listed.stdout.split() if not name.startswith("tests/")]
    texts = {name: (ROOT / name).read_text("utf-8") for name in files}

    assert {name: found[0] for name, text in texts.items() if (found := told.search(text))} == {}


def rehearse(target: str, tree: Path, path: str, *options: str) -> str:
    """Return the commands of a target in a fresh clone, without running one."""
    return output_of(["make", "--dry-run", target, *options], cwd=tree, env={"PATH": path})


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_first_run_fetches_what_the_broker_needs(installer: str, tmp_path: Path) -> None:
    """And says what it does; what only tests need comes with them."""
    tree, tools = tmp_path / "tree", tmp_path / "tools"
    copy_tree(tree)
    tools.mkdir()
    if installer == "uv":
        (tools / "uv").touch(mode=0o755)
    all_packages = {"pip": "--requirement requirements.lock", "uv": "--extra spark"}[installer]

    run, setup = (rehearse(target, tree, f"{tools}:/usr/bin:/bin") for target in ("run", "setup"))

    assert all_packages not in run
    assert "siltstone: fetching what the broker needs" in run
    assert ".venv/bin/python hatch_build.py --compiler" in run
    assert run.rstrip().endswith("exec .venv/bin/siltstone serve")
    assert all_packages in setup
    assert "serve" not in setup


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_checks_and_the_demo_fetch_no_spark(installer: str, tmp_path: Path) -> None:
    """Nor do checks compile, nor does the demo fetch what checks need."""
    tree, tools = tmp_path / "tree", tmp_path / "tools"
    copy_tree(tree)
    tools.mkdir()
    if installer == "uv":
        (tools / "uv").touch(mode=0o755)
    spark, checks = {
        "pip": ("--requirement requirements.lock", "--requirement tests/requirements.lock"),
        "uv": ("--extra spark", "--extra test"),
    }[installer]

    check, demo = (rehearse(target, tree, f"{tools}:/usr/bin:/bin") for target in ("check", "demo"))

    assert spark not in check + demo
    assert checks in check
    assert checks not in demo
    assert "hatch_build.py" not in check
    assert "--allow-subclassing-any" in check


def test_pip_fetches_what_the_broker_needs_while_the_kernels_are_compiled(tmp_path: Path) -> None:
    """Each keeps one processor busy for seconds, and neither needs the other's packages."""
    tree = tmp_path / "tree"
    copy_tree(tree)

    database = run_to_end(
        ["make", "--print-data-base", "--question", "help"], cwd=tree, env={"PATH": "/usr/bin:/bin"}
    ).stdout
    lines = database.splitlines()

    (compiled,) = (line.split() for line in lines if line.startswith(".venv/.installed: "))
    (fetched,) = (line.split() for line in lines if line.startswith(".venv/.runtime-pip: "))
    assert ".venv/.made-pip" in compiled
    assert ".venv/.made-pip" in fetched
    assert ".venv/.runtime-pip" not in compiled
    assert "--jobs=2" in rehearse("run", tree, "/usr/bin:/bin")


def test_another_python_has_an_environment_of_its_own(tmp_path: Path) -> None:
    """Make leaves `.venv` to the Python that it was made with, and takes it for that one."""
    tree = tmp_path / "tree"
    copy_tree(tree)
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = f"PYTHON={sys.executable}"

    fresh = rehearse("setup", tree, "/usr/bin:/bin", asked)
    (tree / ".venv/lib/python3.1").mkdir(parents=True)
    beside = rehearse("setup", tree, "/usr/bin:/bin", asked)
    (tree / f".venv/lib/python{ours}").mkdir()
    same = rehearse("setup", tree, "/usr/bin:/bin", asked)

    assert f"{sys.executable} -m venv --without-pip .venv\n" in fresh
    assert f"{sys.executable} -m venv --without-pip .cache/venv-{ours}\n" in beside
    assert f".cache/venv-{ours}" not in same


def test_what_could_not_be_compiled_is_tried_again(tmp_path: Path) -> None:
    """Make stops with the line that says why, and takes nothing for done."""
    tree = tmp_path / "tree"
    copy_tree(tree)
    tools = tree / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tree / ".venv" / ".made-pip").touch()
    (tools / "python").write_text("#!/bin/sh\necho no headers >&2\nexit 1\n")
    (tools / "python").chmod(0o755)

    for _ in range(2):
        done = run_to_end(["make", ".venv/.installed"], cwd=tree, env={"PATH": "/usr/bin:/bin"})

        assert done.returncode
        assert done.stderr.startswith("no headers\nmake: ")
        assert not (tree / ".venv" / ".installed").exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive of this tree, less what git ignores."""
    folder = tmp_path_factory.mktemp("dist")
    tree = tmp_path_factory.mktemp("tree")
    copy_tree(tree)
    build(tree, folder, "--sdist")
    return folder


def test_wheel_holds_our_packages_and_nothing_else(built: Path) -> None:
    """The top-level names of the wheel are ours, the one that Spark looks for, and its metadata."""
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".data", ".dist-info"))} == PACKAGES
    assert "siltstone/config/server.yaml" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_wheel_brings_the_manual_pages(built: Path) -> None:
    """Installers put them where `man` of the environment looks, and nothing else beside them."""
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    data = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    pages = {page.name for page in (ROOT / "docs" / "man").iterdir()}
    assert data == {f"share/man/man1/{page}" for page in pages}
    assert "siltstone-serve.1" in pages


@pytest.mark.slow
def test_the_image_is_built_without_the_documents(tmp_path: Path) -> None:
    """Its build sees no docs: the wheel that it makes has no manual pages, and is made."""
    tree = tmp_path / "tree"
    copy_tree(tree)
    shutil.rmtree(tree / "docs")
    build(tree, tmp_path)

    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "siltstone/broker/server.py" in names
    assert not [name for name in names if ".data/" in name]


def test_wheel_is_compiled(built: Path) -> None:
    """For this Python and this system; each kernel has its stub, and its source is left out."""
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    assert not wheel.name.endswith("-any.whl")
    kernels = {path.rpartition(".")[0] + hatch_build.EXTENSION for path in hatch_build.KERNELS}
    stubs = {path.replace(".pyx", ".pyi") for path in hatch_build.KERNELS}
    assert kernels | stubs <= set(names)
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".h"))]


def test_wheel_announces_the_console_script(built: Path) -> None:
    """Installing the wheel gives the command `siltstone`."""
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (entries,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]

    assert "siltstone = siltstone.broker.__main__:main" in archive.read(entries).decode()


def test_wheel_announces_the_fixtures(built: Path) -> None:
    """Pytest finds them where it is installed."""
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (entries,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]

    told = archive.read(entries).decode()
    assert "[pytest11]\nsiltstone = siltstone.testing.plugin" in told
    assert "siltstone/testing/plugin.py" in archive.namelist()


def test_source_archive_can_build_the_kernels(built: Path) -> None:
    """The source archive holds the build hook and the kernels' sources, and nothing built."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}

    assert {"pyproject.toml", "hatch_build.py", "hatch_stubs.py", "LICENSE", "README.md"} <= names
    assert {
        "siltstone/protocol/core/_records.pyx",
        "siltstone/protocol/core/_format.pxd",
        "siltstone/protocol/core/_format.h",
    } <= names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyi"))]


@pytest.fixture
def unpacked(built: Path, tmp_path: Path) -> Path:
    """The folder that the source archive unpacks to."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    return folder


def test_source_archive_compiles_what_the_tree_does(unpacked: Path, tmp_path: Path) -> None:
    """The hook finds there all that it compiles, and the lists that it makes headers of."""
    told = run_to_end([sys.executable, "-c", LISTED, str(tmp_path)], cwd=unpacked, check=True)

    assert json.loads(told.stdout) == [list(hatch_build.KERNELS), list(hatch_build.DEPENDS)]
    assert all((unpacked / path).is_file() for path in (*hatch_build.KERNELS, *hatch_build.DEPENDS))
    for path in hatch_build.CONSTANTS:
        assert (tmp_path / Path(path).with_suffix(".pxi").name).is_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wheel_of_the_source_archive_is_compiled(unpacked: Path, tmp_path: Path) -> None:
    """As a publisher makes it; Python takes every kernel from there."""
    tools = ROOT / ".cache" / "kernel-tools"
    if not (tools / "Cython").is_dir():
        pytest.skip("kernel-tools: Cython is missing")
    (tmp_path / "dist").mkdir()
    build(unpacked, tmp_path / "dist", cython=tools)

    (wheel,) = (tmp_path / "dist").glob("*.whl")
    site = tmp_path / "site"
    unpack(wheel, site)
    modules = [path.rpartition(".")[0].replace("/", ".") for path in hatch_build.KERNELS]
    told = run_to_end(
        [sys.executable, "-c", LOADED, *modules],
        cwd=tmp_path,
        check=True,
        env={"PYTHONPATH": str(site)},
    )
    places = told.stdout.splitlines()
    assert len(places) == len(modules)
    assert all(place.startswith(str(site)) and place.endswith(".so") for place in places)


def test_a_wheel_of_the_source_archive_is_that_of_the_tree(
    built: Path, unpacked: Path, tmp_path: Path
) -> None:
    """The links of siltstone/ are folders in the archive, and none of them is missing."""
    (tmp_path / "dist").mkdir()
    build(unpacked, tmp_path / "dist")

    (wheel,) = built.glob("*.whl")
    (again,) = (tmp_path / "dist").glob("*.whl")
    assert _contents(again) == _contents(wheel)


def test_a_build_says_its_commit(built: Path, tmp_path: Path) -> None:
    """The wheel names the platform that it is for, too; without git it names no commit."""
    (wheel,) = built.glob("*.whl")
    unpack(wheel, tmp_path / "site")
    facts = tmp_path / "site" / "siltstone" / "built.json"
    plain = json.loads(facts.read_text())
    platform = plain["platform"]
    facts.write_text(json.dumps({"commit": "f00d", "platform": platform}))

    told = run_to_end(
        [sys.executable, "-m", "siltstone", "version"],
        cwd=tmp_path,
        check=True,
        env={"PYTHONPATH": str(tmp_path / "site")},
    )

    assert plain["commit"] is None
    assert platform.startswith("linux")
    assert told.stdout == f"siltstone {VERSION} (commit f00d, platform {platform})\n"


def test_two_builds_of_the_wheel_are_identical(built: Path, tmp_path: Path) -> None:
    """Byte for byte, from another folder, with other times and rights of the files."""
    tree, dist = tmp_path / "another" / "tree", tmp_path / "dist"
    copy_tree(tree)
    for number, path in enumerate(sorted(tree.rglob("*"))):
        if not path.is_symlink():
            os.utime(path, (1_700_000_000 + number,) * 2)
            path.chmod(0o700 if path.is_dir() else 0o600)
    dist.mkdir()
    build(tree, dist)

    (wheel,) = built.glob("*.whl")
    (again,) = dist.glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_uv_lock_follows_pyproject() -> None:
    """uv.lock was made from the dependencies that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {(*_split(text), "") for text in project["dependencies"]} | {
        (*_split(text), extra)
        for extra, texts in project["optional-dependencies"].items()
        for text in texts
    }

    locked = {
        (normal(each["name"]), each.get("specifier", ""), _extra(each.get("marker", "")))
        for each in _locked()["siltstone"]["metadata"]["requires-dist"]
    }

    assert locked == wanted


@pytest.mark.parametrize("name", LOCKS)
def test_requirements_are_exported_from_uv_lock(name: str) -> None:
    """Packages from pip have the versions and the hashes that uv would install."""
    packages = _locked()
    wanted = {}
    for dependency in _reachable(packages, LOCKS[name]):
        locked = packages[dependency]
        files = [*locked.get("wheels", []), *([locked["sdist"]] if "sdist" in locked else [])]
        wanted[dependency] = (locked["version"], {each["hash"] for each in files})

    lines = (ROOT / name).read_text().replace("\\\n", "").splitlines()
    found = {}
    for line in filter(None, lines):
        requirement, *hashes = line.split(" --hash=")
        package, version = requirement.partition(";")[0].strip().split("==")
        found[package] = (version, {each.strip() for each in hashes})

    assert found == wanted


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.CRC for each in archive.infolist()}


def _split(requirement: str) -> tuple[str, str]:
    match = re.match(r"([\w.-]+)([^;]*)", requirement)
    assert match is not None
    return normal(match[1]), ",".join(sorted(match[2].split(","), reverse=True))


def _extra(marker: str) -> str:
    match = re.search(r"extra == '([\w-]+)'", marker)
    return match[1] if match else ""


def _locked() -> dict[str, dict[str, Any]]:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    return {each["name"]: each for each in lock["package"]}


def _reachable(packages: dict[str, dict[str, Any]], extras: list[str]) -> set[str]:
    own = packages["siltstone"]
    waiting = [*own["dependencies"]]
    for extra in extras:
        waiting += own["optional-dependencies"][extra]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()["name"]
        if name not in found:
            found.add(name)
            waiting += packages[name].get("dependencies", [])
    return found
