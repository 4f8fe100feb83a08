"""Prints figures of the tree: its size, its imports, and what its tests use.

``make figures``; ``ARGS=--how`` says how each figure is counted, ``ARGS=--names`` what was counted,
``ARGS=--json`` prints it for programs. It reads the files that git tracks and imports none of them.
Figures of speed are in docs/performance.md.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import inspect
import json
import re
import sys
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tools.house import (
    FLOORS,
    PRODUCT,
    Figure,
    find_arrows_up,
    find_forbidden_names,
    find_foreign_calls,
    find_tics,
    find_tics_elsewhere,
    find_two_way_pairs,
    find_wide_declarations,
)
from tools.sources import PYTHON, Tree, module_of
from tools.subjects import find_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

OPEN_AT_THE_TOP: Final = ("broker", "storage", "cleaner")
LONG: Final = 60
SMALL: Final = 40
"""Lines that a file should have, else it joins the one that has its idea."""
DEEP: Final = 2
"""Classes that may stand above each other, a class itself among them."""

_COMPILED_SUFFIXES: Final = (".pyx", ".pxd", ".h")
_SHARED_NUMBERS: Final = ("constants.py", "messages/columns.py")
_WALK: Final = re.compile(r"^## (Walk \d+: .*)$", re.MULTILINE)
_FILES_OF_WALK: Final = re.compile(r"^[A-Z][\w-]+ files\b.*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FILE_OF_WALK: Final = re.compile(r"`((?!protocol/(?:core|messages)/)\w+(?:/\w+)+)`")
_APPENDS: Final = re.compile(r"append(?:_\w+)?|add|take")
_MECHANISMS: Final = (
    ("generators with finish", "finish", "*_in_shares"),
    ("Slices", "Slices", "handle_in_slices"),
    ("in_pieces", "in_pieces"),
    ("answer_rows", "answer_rows"),
    ("counted sleep(0)", "sleep(0)"),
)
_CAN_NAME: Final = frozenset({"", ".py", ".pyx", ".pxd", ".h", ".c", ".js", ".sh", ".toml"})
_NAMED_BY_PARTS: Final = (
    ("broker/commands/", "(?:add|run)_.*"),  # found by a command's name
    ("protocol/messages/", "REQUEST|RESPONSE"),  # found by an API's name
    ("", "__.*__"),
)
_PRIVATE: Final = re.compile(r"(?:\w+\.)*_[a-zA-Z]\w*(?:\.\w+)*")
_TAKES_A_NAME: Final = frozenset({"setattr", "delattr", "getattr", "hasattr", "patch", "object"})
_PUBLIC_IN_SPITE_OF_IT: Final = frozenset(
    {"_asdict", "_exit", "_field_defaults", "_fields", "_getframe", "_make", "_replace"}
)


def count_lines(tree: Tree) -> Iterator[Figure]:
    """Lines of files that git tracks below a folder, of all kinds, empty ones and comments too."""
    whole = tree.lines(tree.below(*tree.packages))
    yield Figure("product lines", whole)
    yield Figure("product lines without pipeline", whole - tree.lines(tree.below("pipeline")))
    for package in tree.packages:
        yield Figure(f"product lines of {package}", tree.lines(tree.below(package)))
    yield Figure(
        "lines of tests without tests/reference",
        tree.lines(tree.below("tests", without="tests/reference")),
    )
    yield Figure("lines of tools", tree.lines(tree.below("tools")))


def count_compiled(tree: Tree) -> Iterator[Figure]:
    """Sources in Cython and C, and the lists of numbers that Python and C share.

    Of it, the declarations. Two parts that were larger: `loop_share`, by which requests let others
    be served, and `storage/appending`.
    """
    compiled = [
        path
        for path in sorted(tree.below(*tree.packages))
        if path.suffix in _COMPILED_SUFFIXES or any(map(path.match, _SHARED_NUMBERS))
    ]
    yield Figure("compiled code and its scaffolding, files", len(compiled), _named(compiled))
    yield Figure("compiled code and its scaffolding, lines", tree.lines(compiled))
    parts = {
        ".pxd": [path for path in compiled if path.suffix == ".pxd"],
        "fairness": [path for path in tree.product if path.stem == "loop_share"],
        "append": tree.below("storage/appending"),
    }
    for what, paths in parts.items():
        yield Figure(f"lines of {what}", tree.lines(paths), _named(paths))


def _named(paths: Iterable[PurePosixPath]) -> list[str]:
    return [str(path) for path in paths]


def count_entries(tree: Tree) -> Iterator[Figure]:
    """Files and folders at the top of the large packages."""
    for package in OPEN_AT_THE_TOP:
        entries = sorted({path.parts[1] for path in tree.below(package)})
        yield Figure(f"entries at the top of {package}/", len(entries), entries)


def graph_of_imports(tree: Tree) -> dict[str, set[str]]:
    """Return which modules each module imports, for types too, but not for those of a stub."""
    graph: dict[str, set[str]] = {module_of(path): set() for path in tree.product}
    compiled = {module_of(path) for path in tree.product if path.suffix != ".py"}
    for (module, imported), is_needed in tree.edges.items():
        if is_needed or module not in compiled:
            graph[module].add(imported)
    return graph


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
    """Modules that can all reach each other by imports are one cycle; types of `.py` count."""
    cycles = find_cycles(graph_of_imports(tree))
    yield Figure("cycles of imports", len(cycles), [", ".join(cycle) for cycle in cycles])


def count_floors(tree: Tree) -> Iterator[Figure]:
    """Folders at the top of a package that import each other, and imports to a floor above.

    The floors are in `tools.house.FLOORS`. An arrow joins two folders, or files beside them, of
    which one imports from the other; its imports are pairs of modules. An edge that imports a
    handler directly counts, too. Imports for types only have figures of their own.
    """
    arrows = list(find_arrows_up(tree))
    pairs = [each.what for each in find_two_way_pairs(tree)]
    at_runtime = [each.what for each in find_two_way_pairs(tree, at_runtime=True)]
    for package in FLOORS:
        for what, found in (("at runtime", at_runtime), ("types included", pairs)):
            names = [name for name in found if name.startswith(f"pair {package}/")]
            yield Figure(f"two-way pairs of folders of {package}, {what}", len(names), names)
        up = [arrow for arrow in arrows if arrow.what.startswith(f"arrow {package}/")]
        edges = [tuple(name.split(" -> ")) for arrow in up for name in arrow.names]
        yield Figure(
            f"arrows that run up in {package}",
            len(up),
            [f"{each.what}: {each.number}" for each in up],
        )
        names = [f"{one} -> {other}" for one, other in edges]
        yield Figure(f"imports that run up in {package}", len(names), names)
        names = [f"{one} -> {other}" for one, other in edges if tree.edges[one, other]]
        yield Figure(f"imports that run up in {package}, at runtime", len(names), names)


def count_walks(tree: Tree) -> Iterator[Figure]:
    """Files that a walk of docs/architecture.md lists, without codec and tables.

    The paragraph that begins with "Seven files" or the like names each by its path from the root,
    without its suffix. Files of `protocol/core` and `protocol/messages` do not count.
    """
    path = PurePosixPath("docs/architecture.md")
    _, *parts = _WALK.split(tree.text(path) if path in tree.files else "")
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        listed = _FILES_OF_WALK.search(text)
        if listed:
            names = _FILE_OF_WALK.findall(listed[0])
            yield Figure(f"files of {title[:1].lower()}{title[1:]}", len(names), names)


def count_ways(tree: Tree) -> Iterator[Figure]:
    """Ways to let others be served during long work, and the methods of `LogEnd` that append.

    The ways are `LoopShare.rest` and forbidden ones in use; `work_off`, the bound on work that
    reaches a disk, is something else. Methods that append begin so, or are `add` and `take`.
    """
    places = {figure.what: figure.number for figure in find_forbidden_names(tree)}
    in_use = [what for what, *names in _MECHANISMS if any(places[name] for name in names)]
    in_use += ["share.rest()"]
    yield Figure("mechanisms that let others be served", len(in_use), in_use)
    ends = [node for _, node in _classes(tree) if node.name == "LogEnd"]
    ways = sorted({name for end in ends for name in _members(end) if _APPENDS.fullmatch(name)})
    yield Figure("ways to append", len(ways), ways)


def count_protocols(tree: Tree) -> Iterator[Figure]:
    """Protocols for which at most one class of ours has all members, and their lines."""
    classes = list(_classes(tree))
    members = [(name, _members(node)) for name, node in classes if not _is_protocol(node)]
    found = []
    for name, node in classes:
        wanted = _members(node) if _is_protocol(node) else {"__call__"}
        by = {other for other, those in members if wanted <= those}
        if len(by) < 2 and wanted != {"__call__"}:
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            found.append((size, f"{name}, {size} lines: {', '.join(by)}"))
    what = "protocols with at most one implementer"
    yield Figure(what, len(found), [name for _, name in found])
    yield Figure(f"lines of {what}", sum(size for size, _ in found))


def _classes(tree: Tree) -> Iterator[tuple[str, ast.ClassDef]]:
    for path, module in tree.product.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                yield f"{module_of(path)}.{node.name}", node


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(_written(base) == "Protocol" for base in node.bases)


def _members(node: ast.ClassDef) -> set[str]:
    """Return the names that a class has, those that its methods set included."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(each.name)
        elif isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store):
            found.add(each.id if isinstance(each, ast.Name) else each.attr)
    return found


def count_forbidden(tree: Tree) -> Iterator[Figure]:
    """Places in code that have a name of `tools.house.NAMES`, comments and strings left out."""
    for figure in find_forbidden_names(tree):
        yield figure._replace(what=f"forbidden: {figure.what}")


def count_seams(tree: Tree) -> Iterator[Figure]:
    """Places of the daemon that use what `tools.seams.SEAMS` lists, outside of the seam's module.

    The daemon is the product without `pipeline` and `broker/commands`. In Python these are uses of
    an imported name, and calls of a method of that name on what is no module; in Cython and C
    names and calls in the text. Constants, exceptions and annotations are left out.
    """
    yield from find_foreign_calls(tree)


def count_tics(tree: Tree) -> Iterator[Figure]:
    """Places in comments, docstrings and strings that have a word of `tools.house.TICS`.

    Each is a row for the product. Pages, without what is marked as code, have one row together,
    and so have tests and tools. Questions count too.
    """
    for figure in (*find_tics(tree), *find_tics_elsewhere(tree)):
        yield figure._replace(what=f"English: {figure.what}")


def count_files(tree: Tree) -> Iterator[Figure]:
    """Lines of `.pxd` that are too wide, and files that are short.

    Such files are `.py` or `.pyx`, but no `__init__` or `__main__` and not in `protocol/messages`.
    """
    yield from find_wide_declarations(tree)
    short = [
        f"{path}, {lines} lines"
        for path in tree.below(*tree.packages, without="protocol/messages")
        if path.suffix in {".py", ".pyx"} and not path.stem.startswith("__")
        if (lines := tree.lines([path])) < SMALL
    ]
    yield Figure(f"files below {SMALL} lines", len(short), short)


def count_subjects(tree: Tree) -> Iterator[Figure]:
    """Subjects of commits since the base of `tools.subjects` that break its rule."""
    faults = find_faults(tree.root)
    yield Figure("commit subjects that break the rule", len(faults), faults)


def count_long_functions(tree: Tree) -> Iterator[Figure]:
    """Functions that are long, their heads and docstrings included."""
    names = [
        f"{path}:{node.lineno} {node.name}, {size} lines"
        for path, module in tree.product.items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG
    ]
    yield Figure(f"functions above {LONG} lines", len(names), names)


def count_deep_classes(tree: Tree) -> Iterator[Figure]:
    """Classes with more than one base class of ours, direct or not, without exceptions.

    Classes with the same name count as one.
    """
    bases: dict[str, set[str]] = {}
    for _, node in _classes(tree):
        above = {_written(base).rpartition(".")[2] for base in node.bases}
        bases.setdefault(node.name, set()).update(above - {node.name})
    chains = [_longest_chain(name, bases) for name in sorted(bases)]
    names = [
        " < ".join(chain) for chain in chains if len(chain) > DEEP and not _is_error(chain, bases)
    ]
    yield Figure("classes that inherit deeper than two", len(names), names)


def _written(base: ast.expr) -> str:
    """Return the name of a base class; of a generic one without its arguments."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def _longest_chain(name: str, bases: Mapping[str, set[str]]) -> list[str]:
    """Return a class and its base classes of ours, along the longest path."""
    chains = [_longest_chain(base, bases) for base in sorted(bases[name] & bases.keys())]
    return [name, *max(chains, key=len, default=[])]


def _is_error(chain: list[str], bases: Mapping[str, set[str]]) -> bool:
    above = [getattr(builtins, base, None) for base in bases[chain[-1]]]
    return any(isinstance(base, type) and issubclass(base, BaseException) for base in above)


def count_unused(tree: Tree) -> Iterator[Figure]:
    """Names at the top of a module that nothing outside of the tests uses.

    A use is the name at another place in its module, or in a file that also names the module; for
    numbers that C shares, the name in any compiled file.
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
    for path, tops in tree.product.items():
        module = module_of(path).rpartition(".")[2]
        own = [path.with_suffix(suffix) for suffix in PYTHON if path.with_suffix(suffix) in words]
        declared = Counter(name for each in own for name in _names_at_the_top(tree.product[each]))
        for name in _names_at_the_top(tops):
            shared = any(path.match(pattern) for pattern in _SHARED_NUMBERS)  # C includes them all
            is_named = sum(words[each][name] for each in own) > declared[name] or any(
                module in words[other] or (shared and other.suffix in _COMPILED_SUFFIXES)
                for other in naming[name]
                if other not in own
            )
            if not is_named and not _is_named_by_parts(path, name):
                names.append(f"{path} {name}")
    yield Figure("names that nothing uses", len(names), names)


def _names_at_the_top(module: ast.Module) -> list[str]:
    """Return the functions, classes and variables of a module, each once."""
    found = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [each.id for each in targets if isinstance(each, ast.Name)]
    return list(dict.fromkeys(found))


def _is_named_by_parts(path: PurePosixPath, name: str) -> bool:
    return any(
        str(path).startswith(folder) and re.fullmatch(names, name)
        for folder, names in _NAMED_BY_PARTS
    )


def count_private_names(tree: Tree) -> Iterator[Figure]:
    """Places where tests use a name that begins with an underscore, except on `self` and `cls`."""
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


COUNTS: Final[tuple[Callable[[Tree], Iterator[Figure]], ...]] = (
    count_lines,
    count_compiled,
    count_entries,
    count_cycles,
    count_floors,
    count_walks,
    count_ways,
    count_protocols,
    count_forbidden,
    count_seams,
    count_tics,
    count_files,
    count_subjects,
    count_long_functions,
    count_deep_classes,
    count_unused,
    count_private_names,
)
"""Each says in its docstring how it counts."""


def figures(root: Path) -> list[Figure]:
    """Return all figures of a checkout."""
    return [figure for _, rows in figures_by_count(root) for figure in rows]


def figures_by_count(root: Path) -> list[tuple[str, list[Figure]]]:
    """Return all figures of a checkout, with how they are counted."""
    tree = Tree(root, PRODUCT)
    return [(inspect.getdoc(count) or "", list(count(tree))) for count in COUNTS]


def main(arguments: Sequence[str]) -> None:
    """Print the figures of this checkout, or of another one."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--how", action="store_true", help="say how it was counted")
    parser.add_argument("--names", action="store_true", help="say what was counted")
    parser.add_argument("--json", action="store_true", help="an object of JSON for each figure")
    options = parser.parse_args(arguments)
    counted = figures_by_count(options.folder)
    if options.json:
        fields = Figure._fields if options.names else ("what", "number")
        described = [
            {field: getattr(row, field) for field in fields} for _, rows in counted for row in rows
        ]
        sys.stdout.write(json.dumps(described, indent=1) + "\n")
        return
    width = max(len(row.what) for _, rows in counted for row in rows)
    for how, rows in counted:
        for row in rows:
            sys.stdout.write(f"{row.what:<{width}}  {row.number:>7,}\n")
            if options.names:
                sys.stdout.writelines(f"    {name}\n" for name in row.names)
        if options.how:
            sys.stdout.writelines(f"    {line}\n" for line in how.splitlines() if line)


if __name__ == "__main__":
    main(sys.argv[1:])
