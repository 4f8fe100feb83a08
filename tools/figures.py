"""Prints figures of the tree: how large it is, how it hangs together, what its tests lean on.

``make figures``; with ``ARGS=--names`` what was counted as well, with ``ARGS=--json`` for programs.
It reads what git tracks and imports nothing of it. How long a start takes and how fast the broker
is stands in docs/performance.md; which files a request touches, in docs/architecture.md.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PRODUCT: Final = ("broker", "protocol", "storage", "cleaner", "config", "pipeline")
OPEN_AT_THE_TOP: Final = ("broker", "storage", "cleaner")
LONG: Final = 60
"""Lines of a function beyond which it is counted as long, its head and docstring among them."""
DEEP: Final = 2
"""Classes that may stand above each other, a class itself among them."""

_PREFIX: Final = "siltstone."
_COMPILED_SUFFIXES: Final = (".pyx", ".pxd", ".h")
_PLAIN_TWINS: Final = ("plain_*.py", "_portable*.py")
_SHARED_NUMBERS: Final = (
    "constants.py",
    "messages/columns.py",
)
_IMPORT_IN_CYTHON: Final = re.compile(r"^from (\S+) c?import", re.MULTILINE)
_AT_THE_TOP: Final = re.compile(
    r"^(?:(?:async def|def|class) (\w+)|(\w+)(?:: [^=\n]+)? = )", re.MULTILINE
)
_CAN_NAME: Final = frozenset({"", ".py", ".pyx", ".pxd", ".h", ".c", ".js", ".sh", ".toml"})
_NAMED_BY_PARTS: Final = (
    ("broker/commands/", "(?:add|run)_.*"),  # of the name of a command
    ("protocol/messages/", "REQUEST|RESPONSE"),  # of the name of an API
    ("", "__.*__"),
)
_PRIVATE: Final = re.compile(r"(?:\w+\.)*_[a-zA-Z]\w*(?:\.\w+)*")
_TAKES_A_NAME: Final = frozenset({"setattr", "delattr", "getattr", "hasattr", "patch", "object"})
_PUBLIC_IN_SPITE_OF_IT: Final = frozenset(
    {"_asdict", "_exit", "_field_defaults", "_fields", "_getframe", "_make", "_replace"}
)


class Figure(NamedTuple):
    """One row: what is counted, how many there are and which."""

    what: str
    number: int
    names: Sequence[str] = ()


class Tree:
    """The files of a checkout that git tracks, and what Python makes of them.

    ``packages`` are those that count as the product.
    """

    def __init__(self, root: Path, packages: Sequence[str] = PRODUCT) -> None:
        self.packages = packages
        self._root = root
        self.files = [PurePosixPath(path) for path in _list_files(root)]

    def below(self, *packages: str) -> list[PurePosixPath]:
        """Return the files of some folders at the root."""
        return [path for path in self.files if path.parts[0] in packages]

    def text(self, path: PurePosixPath) -> str:
        """Return what stands in a file."""
        return (self._root / path).read_text("utf-8")

    def lines(self, paths: Iterable[PurePosixPath]) -> int:
        """Return how many lines some files have together."""
        return sum((self._root / path).read_bytes().count(b"\n") for path in paths)

    @cached_property
    def product(self) -> dict[PurePosixPath, ast.Module]:
        """Return every Python file of the product, parsed."""
        return self._parse(self.packages)

    @cached_property
    def tests(self) -> dict[PurePosixPath, ast.Module]:
        """Return every Python file of the tests, parsed."""
        return self._parse(("tests",))

    def _parse(self, packages: Sequence[str]) -> dict[PurePosixPath, ast.Module]:
        sources = [path for path in self.below(*packages) if path.suffix == ".py"]
        return {path: ast.parse(self.text(path), str(path)) for path in sources}


def _list_files(root: Path) -> list[str]:
    """Return what git tracks, without links and without what was deleted but not yet committed."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - git
    paths = [path for path in listed.stdout.split("\0") if path]
    return [path for path in paths if (root / path).is_file() and not (root / path).is_symlink()]


def module_of(path: PurePosixPath) -> str:
    """Return the name by which a file is imported, without the one that all have in front."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def count_lines(tree: Tree) -> Iterator[Figure]:
    """Yield the lines of the product, and of each package; all kinds of files."""
    yield Figure("product lines", tree.lines(tree.below(*tree.packages)))
    for package in tree.packages:
        yield Figure(f"product lines of {package}", tree.lines(tree.below(package)))


def list_compiled(tree: Tree) -> list[PurePosixPath]:
    """Return what is compiled and what stands around it.

    These are sources in Cython and C, Python with a ``.pxd`` beside it, plain twins, modules that
    choose between the two, and lists of numbers that Python and C share.
    """
    files = set(tree.below(*tree.packages))
    return [
        path
        for path in sorted(files)
        if path.suffix in _COMPILED_SUFFIXES
        or (path.suffix == ".py" and path.with_suffix(".pxd") in files)
        or any(path.match(pattern) for pattern in (*_PLAIN_TWINS, *_SHARED_NUMBERS))
        or (path in tree.product and _chooses(tree.product[path]))
    ]


def _chooses(module: ast.Module) -> bool:
    """Tell whether a module takes the plain twin of another one where that is not compiled."""
    return any(
        ".plain_" in name
        for node in ast.walk(module)
        if isinstance(node, ast.ExceptHandler)
        for name in imports_of(ast.Module(node.body, []))
    )


def count_compiled(tree: Tree) -> Iterator[Figure]:
    """Yield the files and the lines of compiled code and its scaffolding."""
    compiled = list_compiled(tree)
    yield Figure("compiled code and its scaffolding, files", len(compiled), _named(compiled))
    yield Figure("compiled code and its scaffolding, lines", tree.lines(compiled))


def _named(paths: Iterable[PurePosixPath]) -> list[str]:
    return [str(path) for path in paths]


def count_entries(tree: Tree) -> Iterator[Figure]:
    """Yield how many files and folders stand at the top of the large packages."""
    for package in OPEN_AT_THE_TOP:
        entries = sorted({path.parts[1] for path in tree.below(package)})
        yield Figure(f"entries at the top of {package}/", len(entries), entries)


def graph_of_imports(tree: Tree) -> dict[str, set[str]]:
    """Return which modules each module imports, those for type checking as well."""
    names = {module_of(path) for path in tree.product}
    cython = [path for path in tree.below(*tree.packages) if path.suffix in {".pyx", ".pxd"}]
    names |= {module_of(path) for path in cython}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for path, module in tree.product.items():
        graph[module_of(path)] |= {_nearest(name, names) for name in imports_of(module)}
    for path in cython:
        found = _IMPORT_IN_CYTHON.findall(tree.text(path))
        graph[module_of(path)] |= {_nearest(name.removeprefix(_PREFIX), names) for name in found}
    for name, imported in graph.items():
        imported -= {name, ""}
    return graph


def imports_of(module: ast.Module) -> Iterator[str]:
    """Yield what a module imports: `from a import b` is a.b."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (each.name.removeprefix(_PREFIX) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").removeprefix(_PREFIX)
            yield from (f"{package}.{each.name}" for each in node.names)


def _nearest(name: str, modules: set[str]) -> str:
    """Return the module that a name is, or stands in; an empty text: it is none of ours."""
    if name in modules:
        return name
    package = name.rpartition(".")[0]
    return package if package in modules else ""


def find_cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, one way or another (Tarjan)."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for imported in sorted(graph[name]):
            if imported not in order:
                visit(imported)
                lowest[name] = min(lowest[name], lowest[imported])
            elif imported in stack:
                lowest[name] = min(lowest[name], order[imported])
        if lowest[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


def count_cycles(tree: Tree) -> Iterator[Figure]:
    """Yield the cycles of imports; modules that can all reach each other are one cycle."""
    cycles = find_cycles(graph_of_imports(tree))
    yield Figure("cycles of imports", len(cycles), [", ".join(cycle) for cycle in cycles])


def count_long_functions(tree: Tree) -> Iterator[Figure]:
    """Yield the functions that are long."""
    names = [
        f"{path}:{node.lineno} {node.name}, {size} lines"
        for path, module in tree.product.items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG
    ]
    yield Figure(f"functions above {LONG} lines", len(names), names)


def count_deep_classes(tree: Tree) -> Iterator[Figure]:
    """Yield the classes that have more than one class of ours above them, exceptions aside."""
    bases = _bases_of_classes(tree)
    names = []
    for name in sorted(bases):
        chain = _longest_chain(name, bases)
        if sum(each in bases for each in chain) > DEEP and not _is_exception(chain[-1]):
            names.append(" < ".join(each for each in chain if each in bases))
    yield Figure("classes that inherit deeper than two", len(names), names)


def _bases_of_classes(tree: Tree) -> dict[str, list[str]]:
    """Return what each class inherits from: full names of ours, as written of the others."""
    imported = {
        module_of(path): {
            each.asname or each.name: f"{(node.module or '').removeprefix(_PREFIX)}.{each.name}"
            for node in ast.walk(module)
            if isinstance(node, ast.ImportFrom)
            for each in node.names
        }
        for path, module in tree.product.items()
    }
    classes = {
        f"{module_of(path)}.{node.name}": [_written(base) for base in node.bases]
        for path, module in tree.product.items()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    places = {name: name.rpartition(".")[0] for name in classes}

    def resolve(module: str, base: str) -> str:
        here = f"{module}.{base}"
        while here not in classes:
            module, _, base = here.rpartition(".")
            there = imported.get(module, {}).get(base)
            if there is None or there == here:
                return base
            here = there
        return here

    return {
        name: [resolve(places[name], base) for base in written] for name, written in classes.items()
    }


def _written(base: ast.expr) -> str:
    """Return the name of a base class; of a generic one without its arguments."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def _longest_chain(name: str, bases: Mapping[str, list[str]]) -> list[str]:
    """Return a class and what it inherits from, the way that passes most classes of ours."""
    chains = [_longest_chain(base, bases) for base in bases.get(name, ())]
    return [name, *max(chains, key=len, default=[])]


def _is_exception(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


def count_unused(tree: Tree) -> Iterator[Figure]:
    """Yield what stands at the top of a module, and that nothing outside of the tests names.

    A use is the name in another place of its module, or in a file that names the module as well.
    """
    words = {
        path: Counter(re.findall(r"\w+", tree.text(path)))
        for path in tree.files
        if path.suffix in _CAN_NAME and path.parts[0] not in {"tests", "docs"}
    }
    naming: dict[str, list[PurePosixPath]] = {}
    for path, found in words.items():
        for word in found:
            naming.setdefault(word, []).append(path)
    names = []
    for path in tree.below(*tree.packages):
        if path.suffix != ".py":
            continue
        module = module_of(path).rpartition(".")[2]
        for match in _AT_THE_TOP.finditer(tree.text(path)):
            name = match[1] or match[2]
            is_named = words[path][name] > 1 or any(
                module in words[other] for other in naming[name] if other != path
            )
            if not is_named and not _is_named_by_parts(path, name):
                names.append(f"{path} {name}")
    yield Figure("names that nothing uses", len(names), names)


def _is_named_by_parts(path: PurePosixPath, name: str) -> bool:
    return any(
        str(path).startswith(folder) and re.fullmatch(names, name)
        for folder, names in _NAMED_BY_PARTS
    )


def count_private_names(tree: Tree) -> Iterator[Figure]:
    """Yield where tests use what has an underscore in front, but of `self` and `cls`."""
    names = [
        f"{path}:{line} {name}"
        for path, module in tree.tests.items()
        for line, name in sorted(_private_names(module))
    ]
    yield Figure("private names used by tests", len(names), names)


def _private_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if _is_private(node.attr) and owner not in {"self", "cls"}:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            package = getattr(node, "module", None)
            for each in node.names:
                name = f"{package}.{each.name}" if package else each.name
                if any(_is_private(part) for part in name.split(".")):
                    yield node.lineno, name
        elif isinstance(node, ast.Call) and _last_name(node.func) in _TAKES_A_NAME:
            for argument in node.args:
                value = argument.value if isinstance(argument, ast.Constant) else None
                if isinstance(value, str) and _PRIVATE.fullmatch(value):
                    yield node.lineno, value


def _is_private(name: str) -> bool:
    return bool(re.match("_[a-zA-Z]", name)) and name not in _PUBLIC_IN_SPITE_OF_IT


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def figures(root: Path) -> list[Figure]:
    """Return all figures of a checkout."""
    tree = Tree(root)
    return [
        *count_lines(tree),
        *count_compiled(tree),
        *count_entries(tree),
        *count_cycles(tree),
        *count_long_functions(tree),
        *count_deep_classes(tree),
        *count_unused(tree),
        *count_private_names(tree),
    ]


def main(arguments: Sequence[str]) -> None:
    """Print the figures of the checkout at hand, or of another one."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--names", action="store_true", help="say what was counted, too")
    parser.add_argument("--json", action="store_true", help="an object of JSON for each figure")
    options = parser.parse_args(arguments)
    gc.disable()  # half of the time would go into looking for rubbish in syntax trees
    rows = figures(options.folder)
    if options.json:
        fields = Figure._fields if options.names else ("what", "number")
        described = [{field: getattr(row, field) for field in fields} for row in rows]
        sys.stdout.write(json.dumps(described, indent=1) + "\n")
        return
    width = max(len(row.what) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row.what:<{width}}  {row.number:>7,}\n")
        if options.names:
            sys.stdout.writelines(f"    {name}\n" for name in row.names)


if __name__ == "__main__":
    main(sys.argv[1:])
