"""Reads the files of a checkout: syntax trees of Python and Cython, and prose apart from code.

The tree of a Cython file has its outline: imports and cimports, classes, structs, functions with
the names of their parameters, variables, docstrings. Any other statement becomes a `pass`.
Declarations in a block of C are moved into the block around it. Lines keep their numbers.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from hatch_stubs import WORDS, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PREFIX: Final = "siltstone."
PYTHON: Final = (".py", ".pyx", ".pxd")
WITH_PROSE: Final = (*PYTHON, ".h", ".c", ".java", ".js", ".md")

_OF_C: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)
_CODE_IN_PAGES: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT: Final = re.compile(r"(?:from [\w.]+ )?c?import\b")
_CLASS: Final = re.compile(
    r"(?:(?:cdef|ctypedef|packed|public) )*(class|struct|union|cppclass) (\w+)"
)
_BLOCK: Final = re.compile(
    r"(?:cdef extern|(?:(?:cdef|cpdef|ctypedef|public) )*enum\b|cdef[a-z ]*:)"
)
_ADVERBS: Final = re.compile(
    r"(?:(?:async|def|cdef|cpdef|ctypedef|DEF|inline|public|readonly|api) )+"
)
_FUNCTION: Final = re.compile(r'[^=(]*?\b(\w+) *(?:" *" *)?\(')
_ASSIGNED: Final = re.compile(r"(\w+)(?: *:[^=]*)? = ")
_NO_NAME: Final = re.compile(r"[=:].*|\[[^\]]*\]|\b(?:not|or) None\b|\" *\"")


class Import(NamedTuple):
    """A name that is imported, as it is written: `from a import b` is a.b."""

    name: str
    line: int
    is_for_types: bool


class Tree:
    """The files of a checkout that git tracks, and their syntax trees.

    ``packages`` are those that count as the product.
    """

    def __init__(self, root: Path, packages: Sequence[str]) -> None:
        self.packages = packages
        self.root = root
        self._texts: dict[PurePosixPath, str] = {}
        self.files = [PurePosixPath(path) for path in _list_files(root)]

    def below(self, *folders: str, without: str = "") -> list[PurePosixPath]:
        """Return the files of some folders, less those of one."""
        inside = tuple(f"{folder}/" for folder in folders)
        outside = f"{without}/"
        return [
            path
            for path in self.files
            if str(path).startswith(inside) and not str(path).startswith(outside)
        ]

    def text(self, path: PurePosixPath) -> str:
        """Return the text of a file."""
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text("utf-8")
        return self._texts[path]

    def lines(self, paths: Iterable[PurePosixPath]) -> int:
        """Return how many lines some files have together."""
        return sum((self.root / path).read_bytes().count(b"\n") for path in paths)

    @cached_property
    def product(self) -> dict[PurePosixPath, ast.Module]:
        """Return every file of the product in Python and Cython, parsed."""
        return self._parse(self.packages)

    @cached_property
    def tests(self) -> dict[PurePosixPath, ast.Module]:
        """Return every Python file of the tests, parsed."""
        return self._parse(("tests",))

    @cached_property
    def edges(self) -> dict[tuple[str, str], bool]:
        """Return which module of the product imports which, and whether it needs it at runtime."""
        names = {module_of(path) for path in self.product}
        edges: dict[tuple[str, str], bool] = {}
        for path, module in self.product.items():
            for each in imports_of(module):
                edge = module_of(path), _nearest(each.name.removeprefix(PREFIX), names)
                if edge[1] and edge[0] != edge[1]:
                    edges[edge] = edges.get(edge, False) or not each.is_for_types
        return edges

    def _parse(self, packages: Sequence[str]) -> dict[PurePosixPath, ast.Module]:
        sources = [path for path in self.below(*packages) if path.suffix in PYTHON]
        gc.disable()  # the garbage collector would take half of the time
        try:
            return {path: parse(path, self.text(path)) for path in sources}
        finally:
            gc.enable()


def _list_files(root: Path) -> list[str]:
    """Return what git tracks, without links and without what was deleted but not yet committed."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - git
    paths = [path for path in listed.stdout.split("\0") if path]
    return [path for path in paths if (root / path).is_file() and not (root / path).is_symlink()]


def module_of(path: PurePosixPath) -> str:
    """Return the name by which a file is imported, without `siltstone.`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def parse(path: PurePosixPath | Path, text: str) -> ast.Module:
    """Return the tree of a file of Python, or the outline of one of Cython."""
    return ast.parse(text if path.suffix == ".py" else outline(text), str(path))


def imports_of(module: ast.AST, *, is_for_types: bool = False) -> Iterator[Import]:
    """Yield what a module imports; a relative import begins with its dots."""
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = "." * node.level + (node.module or "")
            names = [f"{package}.{each.name}" for each in node.names]
        else:
            guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not isinstance(node, ast.expr):
                yield from imports_of(node, is_for_types=is_for_types or guarded)
            continue
        for name in names:
            yield Import(name, node.lineno, is_for_types)


def _nearest(name: str, modules: set[str]) -> str:
    """Return the module of ours that a name is or belongs to; else an empty text."""
    if name in modules:
        return name
    package = name.rpartition(".")[0]
    return package if package in modules else ""


def code_of(path: PurePosixPath | Path, text: str) -> str:
    """Return a text with its comments and strings left empty."""
    return _form_of(path).sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def prose_of(path: PurePosixPath | Path, text: str) -> str:
    """Return the comments and strings of a text, in their lines; of a page everything but code."""
    if path.suffix == ".md":
        return _CODE_IN_PAGES.sub(lambda match: "\n" * match[0].count("\n"), text)
    parts = []
    end = 0
    for match in _form_of(path).finditer(text):
        parts += ["\n" * text.count("\n", end, match.start()) or " ", match[0]]
        end = match.end()
    return "".join(parts)


def _form_of(path: PurePosixPath | Path) -> re.Pattern[str]:
    return WORDS if path.suffix in PYTHON else _OF_C


def outline(text: str) -> str:
    """Return Python with the imports, names and docstrings of a text in Cython."""
    original = text.split("\n")
    lines = [""] * len(original)
    blocks = [_Block(-1, 0, "module")]
    is_first = True
    for each in statements(text):
        while each.indent <= blocks[-1].indent:
            blocks.pop()
        block = blocks[-1]
        if is_first and each.code.startswith('"'):
            lines[each.first : each.end] = original[each.first : each.end]
            lines[each.first] = " " * block.depth + lines[each.first].lstrip()
            is_first = False
            continue
        written, kind = _in_python(each.code, block.kind)
        lines[each.end - 1 if written == "pass" else each.first] = " " * block.depth + written
        is_first = written.endswith(":")
        if kind:
            blocks.append(_Block(each.indent, block.depth + is_first, kind))
    return "\n".join(lines)


class _Block(NamedTuple):
    indent: int
    depth: int
    """How far what stands in it is indented in the outline."""
    kind: str


def _in_python(statement: str, within: str) -> tuple[str, str]:
    """Return a statement in Python, and the kind of block that it begins, if any."""
    opens = statement.endswith(":")
    written, kind = "pass", ""
    words = _ADVERBS.match(statement)
    if within == "def":
        is_declared = statement.startswith(("def ", "async def "))
    else:
        is_declared = statement != "pass" and (words is not None or within == "c")
    if _IMPORT.match(statement):
        written = statement.replace("cimport", "import")
    elif statement == "if TYPE_CHECKING:":
        written, kind = statement, within
    elif found := _CLASS.match(statement):
        written = f"class {found[2]}{_bases(statement)}:"
        kind = ("class" if found[1] == "class" else "c") if opens else ""
        written += "" if opens else " pass"
    elif _BLOCK.match(statement):
        kind = "c"
    elif is_declared:
        written, kind = _declared(statement[words.end() :] if words else statement, opens=opens)
    elif within != "def" and (assigned := _ASSIGNED.match(statement)):
        written = f"{assigned[1]} = 0"
    return written, kind


def _bases(statement: str) -> str:
    inside = re.search(r"\(([^)]*)\)", statement)
    return inside[0] if inside else ""


def _declared(statement: str, *, opens: bool) -> tuple[str, str]:
    """Return a typed function, or typed variables, of Cython as Python."""
    if statement.startswith("("):  # the type is a tuple
        statement = statement[statement.index(")") + 1 :]
    function = _FUNCTION.match(statement)
    names = list(_names(statement[function.end() :] if function else statement))
    if function:
        head = f"def {function[1]}({', '.join(dict.fromkeys(names))}):"
        return (head, "def") if opens else (f"{head} pass", "")
    return "; ".join(f"{name} = 0" for name in names) or "pass", ""


def _names(text: str) -> Iterator[str]:
    """Yield the last name of each part between commas, up to the parenthesis that closes them."""
    depth, start = 0, 0
    for at, letter in enumerate(f"{text})"):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0 or (depth == 0 and letter == ","):
            if found := re.findall(r"[^\W\d]\w*", _NO_NAME.sub("", text[start:at])):
                yield found[-1]
            start = at + 1
        if depth < 0:
            return
