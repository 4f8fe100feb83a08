"""The stubs of compiled modules: the type checkers are told all that a module has."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
STUBS = sorted(
    path
    for package in ("broker", "protocol", "storage")
    for path in (ROOT / package).rglob("*.pyi")
    if path.with_suffix(".pyx").is_file()
)


def load(stub: Path) -> ModuleType:
    """Return the compiled module of a stub."""
    return importlib.import_module(
        "siltstone." + stub.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    )


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the functions and classes of a block, less the protocols of type checkers."""
    return {
        each.name: each
        for each in body
        if isinstance(each, ast.FunctionDef)
        or (isinstance(each, ast.ClassDef) and "Protocol" not in map(ast.unparse, each.bases))
    }


def has_parameters(function: ast.stmt, value: object) -> bool:
    """Tell whether a stub names the parameters that Cython has given a function."""
    assert isinstance(function, ast.FunctionDef)
    try:
        there = list(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # of a method of a type it is not told
        return True
    arguments = function.args
    told = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [each for each in there if each not in {"_", "args", "kwargs"}] == told


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.stem)
def test_a_stub_has_what_its_module_has(stub: Path) -> None:
    """Functions with their parameters, classes with their methods and attributes."""
    told = defined(ast.parse(stub.read_text()).body)
    of_c = (
        set(re.findall(r"(\w+)\(", stub.with_suffix(".pxd").read_text()))
        if (stub.with_suffix(".pxd").is_file())
        else set()
    )
    module = load(stub)
    there = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("__") and getattr(value, "__module__", None) == module.__name__
    }

    assert set(told) - of_c <= set(vars(module))
    for name, node in told.items():
        if name not in there:
            continue
        if isinstance(node, ast.FunctionDef):
            assert has_parameters(node, there[name]), name
            continue
        assert isinstance(node, ast.ClassDef)
        members = set(defined(node.body)) | {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        assert members - {"__init__"} <= set(dir(there[name])), name


def test_there_are_stubs() -> None:
    """Else the test above would look at nothing."""
    assert {"_messages", "_records", "_sending", "columns", "compaction"} <= {
        path.stem for path in STUBS
    }
