"""The layers: which may import which, read from every file's imports."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.figures import count_unused, find_cycles, graph_of_imports
from tools.house import FLOORS, MAY_RUN_UP, PRODUCT, find_arrows_up, find_two_way_pairs
from tools.sources import PREFIX, PYTHON, Tree, code_of, imports_of, parse

ROOT = Path(__file__).parents[1]
PACKAGES = ("broker", "cleaner", "pipeline", "pyspark_siltstone", "storage", "protocol", "config")
FOR_TESTS = "siltstone/testing"
"""Tests of others import it: it holds a broker from outside, as they do."""

MAY_IMPORT = {
    "broker": {
        "broker", "cleaner", "storage", "protocol", "config", "pipeline.client", "pipeline.errors",
    },
    "cleaner": {
        "cleaner", "storage", "protocol.core", "protocol.records", "protocol.errors", "config",
    },
    "pipeline": {"pipeline", "storage", "protocol", "config"},
    "pyspark_siltstone": {"pipeline"},
    "storage": {
        "storage", "protocol.core", "protocol.records", "protocol.errors", "protocol.parts",
        "protocol.names", "config",
    },
    "protocol": {"protocol"},
    "config": {"config"},
    FOR_TESTS: {
        "broker.commands.http_client", "broker.http.control.token",
        "broker.net.faults", "broker.__main__", "pipeline.client", "pipeline.errors", "protocol",
    },
}  # fmt: skip
SPARK = {"pyspark", "pyarrow", "deltalake", "pyiceberg"}  # never needed by the daemon
NEVER = {
    "broker": SPARK,
    "cleaner": {"asyncio", "uvloop", "prometheus_client"} | SPARK,
    "pipeline": {"asyncio", "uvloop", "prometheus_client"},
    "pyspark_siltstone": set(),
    "storage": {"asyncio", "uvloop", "prometheus_client"} | SPARK,
    "protocol": {
        "asyncio", "uvloop", "prometheus_client", "socket", "ssl", "select", "selectors",
        "threading", "concurrent", "logging", "time", "tempfile", "mmap", *SPARK,
    },
    "config": {"asyncio", "uvloop", "prometheus_client", "kio"} | SPARK,
    FOR_TESTS: {"uvloop", "prometheus_client"} | SPARK,
}  # fmt: skip
OF_SEAMS = ("storage.threads.",)
CLOCKS = re.compile(r"\btime\.(?:time|monotonic)(?:_ns)?\b")


class Import(NamedTuple):
    """One imported module and where it is imported."""

    module: str
    where: str


def sources(package: str) -> list[Path]:
    """Return every file of a package in Python or Cython."""
    return sorted(path for path in (ROOT / package).rglob("*.p*") if path.suffix in PYTHON)


def imports(package: str) -> Iterator[Import]:
    """Yield every import of a package; ours without the name that all of them have in front."""
    for module, where in imports_in(sources(package)):
        yield Import(module.removeprefix(PREFIX), where)


def imports_in(paths: Iterable[Path]) -> Iterator[Import]:
    """Yield every import of some files; `from a import b` is a.b where that is a module."""
    for path in paths:
        yield from _imports_of(path)


@cache
def _imports_of(path: Path) -> tuple[Import, ...]:
    where = path.relative_to(ROOT)
    found = [
        (each.name, f"{where}:{each.line}") for each in imports_of(parse(path, path.read_text()))
    ]
    assert [each for each in found if each[0].startswith(".")] == [], "a relative import"
    return tuple(Import(*each) for each in found)


def within(module: str, allowed: set[str]) -> bool:
    """Tell whether a module is one of the allowed or inside one."""
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def test_everything_has_one_name() -> None:
    """A folder of the root that is imported by itself would exist twice, with two states."""
    folders = {*PACKAGES, "tests", "bench", "examples", "tools"}
    bare = set(PACKAGES) - {"pyspark_siltstone"}
    likely = re.compile(rf"^\s*(?:from|import(?:.*,)?)\s+({'|'.join(bare)})\b", re.MULTILINE)
    paths = [
        path
        for folder in sorted(folders)
        for path in sources(folder)
        if likely.search(path.read_text())
    ]

    assert {path.name for path in (ROOT / "siltstone").iterdir() if path.is_symlink()} == bare
    assert [each for each in imports_in(paths) if within(each.module, bare)] == []


@pytest.mark.parametrize("package", [*PACKAGES, FOR_TESTS])
def test_arrows_point_down(package: str) -> None:
    """A package imports of ours only what the architecture draws below it."""
    ours = [each for each in imports(package) if each.module.partition(".")[0] in PACKAGES]

    assert [each for each in ours if not within(each.module, MAY_IMPORT[package])] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_imported_in_a_circle(package: str) -> None:
    """No module needs itself by way of others, not even for a type, unless only its stub does."""
    assert find_cycles(graph_of_imports(Tree(ROOT, [package]))) == []


@cache
def product() -> Tree:
    """Return the checkout."""
    return Tree(ROOT, PRODUCT)


@pytest.mark.parametrize("package", FLOORS)
def test_every_folder_has_a_floor(package: str) -> None:
    """A new folder at the top of a package gets its place in the drawing."""
    tops = {path.parts[1].partition(".")[0] for path in product().below(package)}

    assert tops - {"__init__"} <= {name for floor in FLOORS[package] for name in floor}


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_runs_up_inside_a_package(package: str) -> None:
    """A floor knows its own and those below, for types too; folders do not import each other."""
    found = (*find_arrows_up(product()), *find_two_way_pairs(product()))

    assert [each for each in found if each.what.split()[1].startswith(f"{package}/")] == []


def test_what_may_run_up_does() -> None:
    """An arrow that is allowed by name exists; there are two at most, each with its reason."""
    every = {figure.what.removeprefix("arrow ") for figure in find_arrows_up(product(), allowed={})}

    assert MAY_RUN_UP.keys() <= every
    assert len(MAY_RUN_UP) <= 2


def test_nothing_is_left_that_nobody_uses() -> None:
    """A name at the top of a module is used by the product, or by what measures or makes it.

    A test alone keeps nothing: it would prove what nobody does.
    """
    (unused,) = count_unused(Tree(ROOT, PACKAGES))

    assert list(unused.names) == []


@pytest.mark.parametrize("package", [*PACKAGES, FOR_TESTS])
def test_lower_layers_stay_free_of_the_world(package: str) -> None:
    """The loop stays in broker, metrics stay in broker, and protocol has no I/O at all."""
    assert [each for each in imports(package) if within(each.module, NEVER[package])] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_simulator_can_replace_threads(package: str) -> None:
    """Names of the seam are looked up in it at each call; one that a module keeps is fixed."""
    kept = [each for each in imports(package) if each.module.startswith(OF_SEAMS)]

    assert kept == []


@pytest.mark.parametrize("package", PACKAGES)
def test_only_storage_looks_at_the_clock(package: str) -> None:
    """Time is a value that is handed in: only storage/clock asks the system for it."""
    looks = [
        f"{path.relative_to(ROOT)} {match[0]}"
        for path in sources(package)
        if path != ROOT / "storage" / "clock.pyx"
        for match in CLOCKS.finditer(code_of(path, path.read_text()))
    ]

    assert looks == []
