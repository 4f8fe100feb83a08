"""The rules of the house that text or imports can break: floors, forbidden names, plain English.

`tests/test_house.py` checks the rules: no place breaks one.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.seams import SEAMS, find_places
from tools.sources import WITH_PROSE, Tree, code_of, prose_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

PRODUCT: Final = ("broker", "protocol", "storage", "cleaner", "config", "pipeline")
AROUND: Final = ("tests", "tools", "bench", "examples", "siltstone", "pyspark_siltstone")

WIDE: Final = 160

FLOORS: Final = {
    "storage": (  # from the ground up: files and folders at the top of a package
        ("files", "clock", "threads", "log_lock", "randomness", "topic_partition"),
        ("directory",),
        ("segment", "producers"),
        ("appending",),
        ("log",),
        ("moving",),
        ("manager", "checkpointed", "dump"),
    ),
    "broker": (
        ("api", "context", "process"),
        ("security", "topics", "coordination"),
        ("groups", "transactions", "fetching", "share", "telemetry"),
        ("coordinators", "services"),
        ("handlers",),
        ("reload", "commands", "http", "net"),
        ("run", "server", "__main__"),
    ),
}
"""What stands on a floor imports what is on its own or below, for types too."""
MAY_RUN_UP: Final = {
    "broker/commands -> run": "`siltstone serve` is a command, and starts the broker",
    "broker/context -> security": "a request has the rights and the quota of its client, by type",
}
"""The imports that run up all the same, with the reason; two at most."""
BY_TABLE_ONLY: Final = "handlers", ("commands", "http", "net")
"""The edges know no handler but by the table of APIs."""


class Rule(NamedTuple):
    """A pattern that some files must not contain."""

    name: str
    pattern: str
    why: str
    instead: str
    only_in: str = ""


_SECOND_FORM: Final = "each step exists twice, plain and in pieces"
_REST: Final = "a coroutine that awaits share.rest(); dispatch steps it until it suspends"
NAMES: Final = (
    Rule("finish", r"(?<![.\w])(?<!def )finish\b", _SECOND_FORM, _REST, "broker"),
    Rule("*_in_shares", r"_in_shares\b", _SECOND_FORM, _REST),
    Rule("answer_rows", r"answer_rows\b", _SECOND_FORM, _REST),
    Rule("in_pieces", r"\bin_pieces\b", _SECOND_FORM, _REST),
    Rule("Slices", r"Slices\b", "a request is cut and its answers are joined", _REST),
    Rule("handle_in_slices", r"handle_in_slices\b", "a second way of dispatch", _REST),
    Rule("sleep(0)", r"asyncio\.sleep\(0\)", "counted work says nothing of time", _REST),
    Rule(
        "inside of CPython",
        r"\b_Py[A-Z]\w+|\btp_\w+|\bob_(?!base\b)\w+|\bPyMemoryViewObject\b",
        "each release of Python may change it",
        "a cdef class with fields, or a function of Python's stable interface",
    ),
    Rule(
        "column by number",
        r"\b(?:field|number)_of\((?:[^()\n]|\([^()\n]*\))*, \d(?:\)| if )",
        "a field that is added moves it",
        "a struct with names, or a name of protocol.messages.columns",
    ),
    Rule(
        "tuple for a struct",
        r"\((?:(?:long long|cython\.longlong), ){2}",
        "its columns have no names",
        "a cdef struct",
    ),
    Rule(
        "name of a logger",
        r"\blog(?:ger)? = logging\.getLogger\(__name__",
        "a thing has one name",
        "_logger; log is a partition's",
    ),
)
"""Counted in code: comments and strings are left out. A line may have several."""

_PLAINLY: Final = "a reader has to decode it"
TICS: Final = (
    Rule(
        "who, whoever", r"\b[Ww]ho(?:ever)?\b", "it is a question, not a noun", "a client, a user"
    ),
    Rule(
        "What, at the head of a docstring",
        r'"""What\b',
        _PLAINLY,
        "a verb or a noun that says what it is",
    ),
    Rule("can not", r"\b[Cc]an not\b", "it is one word", "cannot"),
    Rule("anew", r"\b[Aa]new\b", _PLAINLY, "again"),
    Rule("told of", r"\b(?:told|tell|tells|telling) of\b", _PLAINLY, "know, get, see; tell X that"),
    Rule("is none", r"\b(?:is|are|was|were|if) none\b", _PLAINLY, "no X exists; is not one of"),
    Rule(
        "is there",
        r"\b(?:is|are|was|were|be|been|not|still|already) there\b",
        _PLAINLY,
        "exists; is open, present, known",
    ),
)
"""Counted in comments, strings and pages; of a page without what is marked as code."""
_NAME_THE_WORDS: Final = ("house", "subjects", "test_figures", "test_sources", "test_subjects")


class Figure(NamedTuple):
    """The name of a count, the number, and the places that were counted."""

    what: str
    number: int
    names: Sequence[str] = ()


def find_arrows_up(tree: Tree, allowed: Mapping[str, str] = MAY_RUN_UP) -> Iterator[Figure]:
    """Yield the imports from a folder to one on a higher floor, or from an edge to a handler.

    A module that imports another one counts once, for types too.
    """
    found: dict[str, list[str]] = {}
    for module, imported in sorted(tree.edges):
        package, start = module.split(".")[:2] if "." in module else (module, "")
        floors = FLOORS.get(package, ())
        end = imported.removeprefix(f"{package}.").partition(".")[0]
        levels = {name: level for level, floor in enumerate(floors) for name in floor}
        if not imported.startswith(f"{package}.") or start not in levels or end not in levels:
            continue
        beside_table = package == "broker" and end == BY_TABLE_ONLY[0] and start in BY_TABLE_ONLY[1]
        if levels[end] > levels[start] or beside_table:
            found.setdefault(f"arrow {package}/{start} -> {end}", []).append(
                f"{module} -> {imported}"
            )
    for arrow, names in found.items():
        if arrow.removeprefix("arrow ") not in allowed:
            yield Figure(arrow, len(names), names)


def find_two_way_pairs(tree: Tree, *, at_runtime: bool = False) -> Iterator[Figure]:
    """Yield the pairs of folders at the top of a package of `FLOORS` that import each other."""
    folders = {path.parent for path in tree.files if len(path.parts) > 2}
    arrows = {
        tuple("/".join(module.split(".")[:2]) for module in edge)
        for edge, is_needed in tree.edges.items()
        if is_needed or not at_runtime
    }
    for one, other in sorted(arrows):
        package = one.partition("/")[0]
        is_pair = one < other and (other, one) in arrows and other.startswith(f"{package}/")
        if package in FLOORS and is_pair and {PurePosixPath(one), PurePosixPath(other)} <= folders:
            yield Figure(f"pair {one} <-> {other.partition('/')[2]}", 1)


def find_forbidden_names(tree: Tree) -> Iterator[Figure]:
    """Yield the names of `NAMES` in the code of the product; comments and strings do not count."""
    return _find(tree, NAMES, tree.below(*PRODUCT), code_of)


def find_tics(tree: Tree) -> Iterator[Figure]:
    """Yield the words of `TICS` in the product, one by one."""
    paths = [path for path in tree.below(*PRODUCT) if path.suffix != ".md"]
    return _find(tree, TICS, paths, prose_of)


def find_tics_elsewhere(tree: Tree) -> Iterator[Figure]:
    """Yield the words of `TICS` in pages, and around the product, all together."""
    pages = [path for path in tree.files if path.suffix == ".md"]
    around = [
        path
        for path in tree.below(*AROUND)
        if path.suffix != ".md" and path.stem not in _NAME_THE_WORDS
    ]
    words = "|".join(rule.pattern for rule in TICS)
    for paths, where in ((pages, "pages"), (around, "tests and tools")):
        rule = Rule(f"all of these, in {where}", words, "see the others", "what they say")
        yield from _find(tree, [rule], paths, prose_of)


def _find(
    tree: Tree,
    rules: Sequence[Rule],
    paths: Iterable[PurePosixPath],
    part: Callable[[PurePosixPath, str], str],
) -> Iterator[Figure]:
    """Yield for each rule the places where a part of some files matches it."""
    places: dict[str, list[str]] = {rule.name: [] for rule in rules}
    for path in paths:
        if path.suffix not in WITH_PROSE:
            continue
        likely = [rule for rule in rules if re.search(rule.pattern, tree.text(path))]
        text = part(path, tree.text(path)) if likely else ""
        for rule in likely:
            places[rule.name] += [
                f"{path}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"
                for match in re.finditer(rule.pattern, text)
                if not rule.only_in or path.parts[0] == rule.only_in
            ]
    for name, found in places.items():
        yield Figure(name, len(found), found)


def find_wide_declarations(tree: Tree) -> Iterator[Figure]:
    """Yield the lines of `.pxd` that are too long."""
    wide = [
        f"{path}:{number}"
        for path in tree.below(*PRODUCT)
        if path.suffix == ".pxd"
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        if len(line) > WIDE
    ]
    yield Figure(f".pxd lines above {WIDE} characters", len(wide), wide)


def find_foreign_calls(tree: Tree) -> Iterator[Figure]:
    """Yield for each seam of `tools.seams` the places that bypass it."""
    places = list(find_places(tree))
    for seam in SEAMS:
        found = [f"{each.where} {each.name}" for each in places if each.seam == seam.name]
        yield Figure(f"past the seam: {seam.name}", len(found), found)


HELD: Final[tuple[Callable[[Tree], Iterator[Figure]], ...]] = (
    find_arrows_up,
    find_two_way_pairs,
    find_forbidden_names,
    find_tics,
    find_tics_elsewhere,
    find_wide_declarations,
    find_foreign_calls,
)
"""The counts that `tests/test_house.py` holds at zero."""
