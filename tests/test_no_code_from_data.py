"""Data never becomes code: no pickle, no eval or exec, no YAML that makes objects."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.audit import CODE, ROOT

MODULES = {"cloudpickle", "code", "codeop", "dill", "jsonpickle", "marshal", "pickle", "shelve"}
BUILTINS = {"__import__", "compile", "eval", "exec"}
OF_YAML = {"CSafeLoader", "MarkedYAMLError", "SafeLoader", "YAMLError", "compose", "nodes"}
OF_OS = {"popen", "system"}
WATCHED = {"builtins", "os", "yaml"}


def sources(*suffixes: str) -> list[Path]:
    """Return every file of the packages with such a name; links show them a second time."""
    return [
        path
        for package in CODE
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in suffixes and path == path.resolve()
    ]


def forbidden(tree: ast.AST) -> Iterator[str]:
    """Yield what of a file makes code or objects of data, or starts a shell."""
    for node in ast.walk(tree):
        yield from _imported(node)
        yield from _used(node)


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            modules = {each.name.partition(".")[0] for each in names}
            yield from (f"import {name}" for name in sorted(modules & MODULES))
            renamed = [each for each in names if each.name in WATCHED and each.asname]
            yield from (f"{each.name} as {each.asname}" for each in renamed)
        case ast.ImportFrom(module=str(module), names=names):
            if module.partition(".")[0] in MODULES:
                yield f"import {module}"
            yield from (
                f"{module}.{each.name}" for each in names if is_forbidden(module, each.name)
            )


def _used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if name in BUILTINS:
            yield name
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if is_forbidden(owner, name):
            yield f"{owner}.{name}"
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), named, *_]):
            name = str(named.value) if isinstance(named, ast.Constant) else "*"
            if is_forbidden(owner, name):
                yield f"{owner}.{name}"
        case ast.keyword(arg="shell", value=ast.Constant(value=True)):
            yield "shell=True"


def is_forbidden(owner: str, name: str) -> bool:
    """Tell whether a member of a module is; of YAML's what is not known to be safe."""
    match owner:
        case "yaml":
            return name not in OF_YAML
        case "os":
            return name in OF_OS | {"*"}
        case "builtins":
            return name in BUILTINS | {"*"}
    return False


@pytest.mark.slow
def test_no_code_is_made_of_data() -> None:
    """In no file of the packages."""
    found: dict[str, set[str]] = {}
    files = sources(".py")
    for path in files:
        if told := set(forbidden(ast.parse(path.read_text(encoding="utf-8")))):
            found[path.relative_to(ROOT).as_posix()] = told

    assert len(files) > 300
    assert found == {}


def test_no_code_is_made_of_data_where_it_is_compiled() -> None:
    """Cython's files are no Python that can be parsed: their words are looked at."""
    word = re.compile(
        rf"^\s*c?import\s+({'|'.join(MODULES)})\b|(?<![\w.])({'|'.join(BUILTINS)})\(", re.MULTILINE
    )
    files = sources(".pyx", ".pxd")

    assert len(files) > 10
    assert [path for path in files if word.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import pickle", "import pickle"),
        ("import os.path, marshal as m", "import marshal"),
        ("from pickle import loads", "import pickle"),
        ("def f(x):\n    return eval(x)", "eval"),
        ("run = exec", "exec"),
        ("yaml.load(text)", "yaml.load"),
        ("yaml.load(text, Loader=yaml.UnsafeLoader)", "yaml.UnsafeLoader"),
        ("from yaml import full_load", "yaml.full_load"),
        ("import yaml as y", "yaml as y"),
        ("getattr(yaml, 'unsafe_load')(text)", "yaml.unsafe_load"),
        ("getattr(builtins, name)", "builtins.*"),
        ("os.system(text)", "os.system"),
        ("subprocess.run(text, shell=True)", "shell=True"),
    ],
)
def test_it_would_be_seen(code: str, told: str) -> None:
    """Each way to write it that somebody would."""
    assert told in set(forbidden(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "re.compile(text)",
        "yaml.compose(text, Loader=yaml.SafeLoader)",
        "getattr(yaml, 'CSafeLoader', yaml.SafeLoader)",
        "self.exec(text)",
        "subprocess.run(words, shell=False)",
        "def load(text): ...",
    ],
)
def test_what_is_harmless_is_not(code: str) -> None:
    """A name that only looks like one."""
    assert set(forbidden(ast.parse(code))) == set()
