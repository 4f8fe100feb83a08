"""The call sites of the disk: kind of call, file, function.

A site stands outside of ``storage/files``, whose functions are ways to the disk and no causes: the
`create` for a segment and that for a checkpoint are two sites. A function inside of another one
counts as that one. `list_sites` reads all sites from the syntax trees of the daemon, `where` says
from which one the disk is called now: the nearest function of the product on the stack.

Between this function and the disk may be code that the stack does not show: compiled code, whose
calls come through ``_disk.pyx``, or a function of ``storage/files`` that was handed to a thread.
The function on the stack does not name it then, and the site says what stands between:
``Turn.end by write_at``. The list has such a site once, in ``storage/files``: `listed` turns one
that was seen into one of the list.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.storage.files import disk as seam
from tests.simulator.world.disk import CALLS
from tools.seams import DAEMON, NO_DAEMON
from tools.sources import code_of, imports_of, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from tools.sources import Tree

FILES: Final = "storage/files/__init__.py"
COMPILED: Final = "storage/files/_disk.pyx"
BY: Final = " by "
THROUGH: Final = {"pwrite": "write_at", "pread": "_read_once", "preadv": "_read"}
"""The function of `COMPILED` that makes each call."""
_DIRECT: Final = frozenset({
    *("copy_file_range", "link", "memfd_create", "pread", "preadv", "pwrite", "read", "rename"),
    *("stat", "utime", "write"),
})  # fmt: skip
"""Kinds whose functions of `Disk` may ask before a call themselves, not through another one."""
_ROOT: Final = f"{Path(seam.__file__).parents[2]}/"
_MODULE: Final = "<module>"
_IMPORTED: Final = "siltstone.storage.files"
_MODULES: Final = {"files", "disk"}


class Site(NamedTuple):
    """A place that calls the disk."""

    kind: str
    file: str
    function: str


class _Code(NamedTuple):
    """Says what a code object is; one that is not of the product has no file."""

    code: CodeType
    file: str
    function: str
    names: frozenset[str]
    sites: dict[tuple[str, str], Site]


_codes: dict[int, _Code] = {}
"""By identity, since a code object is compared by all that it has; each is kept."""
_nowhere: Final[dict[tuple[str, str], Site]] = {}


def where(kind: str) -> Site:
    """Return the site whose call of the disk is asked about now.

    The nearest callers are of the simulator: to look at a frame costs more than all else here.
    """
    frame: FrameType | None = sys._getframe(4 if kind in _DIRECT else 5)
    way = ""
    sites = _nowhere
    while frame is not None:
        code = frame.f_code
        found = _codes.get(id(code)) or _read(code)
        file = found.file
        if file:
            if file != FILES:
                sites = found.sites
                break
            way = code.co_name
        frame = frame.f_back
    else:
        found = None
    site = sites.get((kind, way))
    if site is None:
        site = sites[kind, way] = _site_of(kind, found, way)
    return site


def _read(code: CodeType) -> _Code:
    file = code.co_filename.removeprefix(_ROOT)
    is_ours = file != code.co_filename and file.partition("/")[0] in DAEMON
    names = frozenset(code.co_names)
    found = _Code(code, file if is_ours else "", _outermost(code.co_qualname), names, {})
    _codes[id(code)] = found
    return found


def _outermost(name: str) -> str:
    parts = name.split(".")
    inner = [at for at, part in enumerate(parts) if part.startswith("<")]
    return ".".join(parts[: inner[0]] if inner else parts) or _MODULE


def _site_of(kind: str, code: _Code | None, way: str) -> Site:
    called = way or {"create": "open"}.get(kind, kind)
    if code is not None and called in code.names:
        return Site(kind, code.file, code.function)
    between = way or THROUGH.get(kind, kind)
    return Site(kind, code.file if code else "", f"{code.function if code else ''}{BY}{between}")


@cache
def listed(site: Site) -> Site:
    """Return a site as the list has it."""
    _, by, between = site.function.partition(BY)
    if not by:
        return site
    return Site(site.kind, COMPILED if between in THROUGH.values() else FILES, between)


def list_sites(tree: Tree) -> list[Site]:
    """Return all sites of the daemon, in order."""
    files = PurePosixPath(FILES)
    ways = _ways(parse(files, tree.text(files)))
    typed = {path.with_suffix(".py") for path in tree.files if path.suffix == ".pxd"}
    found: set[Site] = set()
    for path in tree.below(*DAEMON, without=NO_DAEMON):
        if str(path) == COMPILED:
            found |= set(_through(tree.text(path)))
        elif path.suffix == ".pyx" or path in typed:
            named = re.findall(r"\b(?:files|disk)\.(\w+)", code_of(path, tree.text(path)))
            found |= {Site(kind, FILES, name) for name in named for kind in ways.get(name, ())}
        elif path.suffix == ".py" and path.parent != files.parent and "files" in tree.text(path):
            found |= set(_in_module(str(path), parse(path, tree.text(path)), ways))
    return sorted(found)


def _through(text: str) -> Iterator[Site]:
    """Yield what compiled code calls through the seam."""
    for part in re.split(r"^cdef ", text, flags=re.MULTILINE):
        for kind in re.findall(r"through\.(\w+)\(", part):
            yield Site(kind, COMPILED, part.partition("(")[0].split()[-1])


def _ways(module: ast.Module) -> dict[str, set[str]]:
    """Return the kinds of calls that each function of ``storage/files`` makes."""
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    ways: dict[str, set[str]] = defaultdict(set)
    before = -1
    while before != (before := sum(map(len, ways.values()))):
        for name, function in functions.items():
            for each in _mentions(function, {"disk", *functions}):
                ways[name] |= each.kinds(ways, function)
    return dict(ways)


class _Mention(NamedTuple):
    """A name of the seam, or of a function that leads to it, and the call, if it is called."""

    name: str
    is_of_seam: bool
    call: ast.Call | None

    def kinds(self, ways: dict[str, set[str]], within: ast.AST) -> set[str]:
        """Return the kinds of calls that it stands for, in a function."""
        if self.is_of_seam and self.name == "open":
            return _kinds_of_open(within)
        if self.is_of_seam:
            return {self.name} & set(CALLS)
        kinds = ways.get(self.name, set())
        if self.name == "open_file" and self.call is not None:
            creates = any(each.arg == "create" for each in self.call.keywords)
            return kinds - {"open" if creates else "create"}
        return kinds


def _kinds_of_open(within: ast.AST) -> set[str]:
    """Tell by its flags whether a function opens, or creates, or does what it is asked."""
    if "O_CREAT" not in ast.unparse(within):
        return {"open"}
    is_asked = any(isinstance(each, ast.arg) and each.arg == "create" for each in ast.walk(within))
    return {"open", "create"} if is_asked else {"create"}


def _mentions(within: ast.AST, own: set[str]) -> Iterator[_Mention]:
    """Yield what a function mentions of ``storage/files``, of which it knows some names."""
    calls = {id(node.func): node for node in ast.walk(within) if isinstance(node, ast.Call)}
    for node in ast.walk(within):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in _MODULES & own:
                yield _Mention(node.attr, node.value.id == "disk", calls.get(id(node)))
        elif isinstance(node, ast.Name) and node.id in own:
            yield _Mention(node.id, False, calls.get(id(node)))


def _in_module(path: str, module: ast.Module, ways: dict[str, set[str]]) -> Iterator[Site]:
    imported = [each.name for each in imports_of(module) if each.name.startswith(_IMPORTED)]
    own = {name.rpartition(".")[2] for name in imported}
    for name, node in _functions(module, ""):
        for each in _mentions(node, own):
            is_handed = each.call is None and not each.is_of_seam
            for kind in each.kinds(ways, node):
                yield Site(kind, FILES, each.name) if is_handed else Site(kind, path, name)


def _functions(node: ast.AST, above: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every statement of a module and of its classes with the name of what it stands in."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ClassDef):
            yield from _functions(each, f"{above}{each.name}.")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{above}{each.name}", each
        else:
            yield above.rstrip(".") or _MODULE, each
