"""Writes the stubs of compiled modules, which type checkers read, from their Cython sources.

A type of C stands for a type of Python. Where C says only `object`, or only that it is a list, the
source says more: an annotation of a parameter; `-> T` behind a `def`, and in a comment behind a
`cpdef`; `# type: T` behind an attribute, a constant, or a class with bases for type checkers alone.
A function without a result returns None, and a readonly attribute is `Final`. What stands under
`if TYPE_CHECKING:` is copied. A name without a type is left out: it is an error to use it.

`python hatch_stubs.py` puts the stubs beside their sources, where git ignores them. As a plugin of
mypy this module does so before each check.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent
PACKAGES = ("siltstone/broker", "siltstone/protocol", "siltstone/storage")

WORDS = re.compile(
    r'#[^\n]*|[rbuf]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL | re.IGNORECASE,
)
"""Comments and strings of Python and Cython."""

_TOLD = re.compile(r"# (?:type:|->) (.+)")
_IMPORT = re.compile(r"(from ([\w.]+) )?(c?)import (.+)")
_CLASS = re.compile(r"(?:cdef )?class (\w+)(?:\((.*)\))?:.*")
_ATTRIBUTE = re.compile(r"cdef (public|readonly) (.*?)((?:\w+, )*\w+)")
_CONSTANT = re.compile(r"(\w+) = (.+)")
_FUNCTION = re.compile(r"(async def|def|cpdef) (.*?)(\w+)\((.*)\)(?: -> (.+)| (?:no)?except.*)?:.*")
_PARAMETER = re.compile(r"(.*?)(\*{0,2}\w+|[*/])(?: not None)?(?:: ([^=]+?))?( ?= ?.*)?")
_OF_C = {"bint": "bool", "double": "float"}
_NUMBERS = {"char", "int", "long", "unsigned", "Py_ssize_t", "int32_t", "int64_t", "uint64_t"}
_VAGUE = {"", "object", "list", "dict", "set", "tuple", "frozenset"}


class Statement(NamedTuple):
    """A statement of Cython: its code in one line, with empty strings, and where it stands.

    ``told`` is the type in a comment at its end.
    """

    indent: int
    code: str
    told: str
    first: int
    end: int


class _Stub:
    def __init__(self, source: Path) -> None:
        self._lines = source.read_text().split("\n")
        self._imports = {"Any": "from typing import Any", "Final": "from typing import Final"}
        self._body: list[str] = []
        self._block = ""
        """The last statement without an indent."""
        self._owner = ""
        """The class of the last statement."""
        self._decorators: list[str] = []
        self.attributes: dict[str, list[Statement]] = {}
        """Those that the declarations give each class."""

    def text(self) -> str:
        used = set(re.findall(r"\w+", "\n".join(self._body)))
        imports = [line for name, line in self._imports.items() if name in used]
        return "\n".join([*imports, *self._body, ""])

    def add(self, each: Statement) -> None:
        """Add what type checkers need of the next statement."""
        if each.indent == 0:
            self._block, self._owner = each.code, ""
        if self._block == "if TYPE_CHECKING:" and each.indent:
            if not self._import(each.code):
                self._body += [line[4:] for line in self._lines[each.first : each.end]]
        elif each.indent <= (4 if self._owner or self._block == "cpdef enum:" else 0):
            self._define(each)

    def _define(self, each: Statement) -> None:
        if each.code.startswith("@"):
            self._decorators.append(each.code)
            return
        if found := _CLASS.fullmatch(each.code):
            self._owner = found[1]
            bases = ", ".join(filter(None, [found[2], each.told]))
            self._body += [f"class {self._owner}({bases}):", "    ..."]
            for declared in self.attributes.get(self._owner, ()):
                self._attribute(declared)
        elif found := _FUNCTION.fullmatch(each.code):
            self._function(each, *found.groups())
        elif self._owner:
            self._attribute(each)
        elif not self._import(each.code):
            self._constant(each)
        self._decorators = []

    def _import(self, code: str) -> bool:
        found = _IMPORT.fullmatch(code)
        if found and (not found[3] or (found[2] or "").startswith("siltstone.")):
            for name in found[4].strip("(,)").split(", "):
                self._imports[name.split()[-1]] = f"{found[1] or ''}import {name}"
        return found is not None

    def _attribute(self, each: Statement) -> None:
        found = _ATTRIBUTE.fullmatch(each.code)
        if found and (told := each.told or _of_c(found[2])):
            told = f"Final[{told}]" if found[1] == "readonly" else told
            self._body += [f"    {name}: {told}" for name in found[3].split(", ")]

    def _constant(self, each: Statement) -> None:
        found = _CONSTANT.fullmatch(each.code.rstrip(","))
        if found is None:
            return
        name, value = found.groups()
        if each.told:
            self._body.append(f"{name}: {each.told}")
        elif made := re.fullmatch(r"([A-Z]\w*)\(.*\)", value):
            self._body.append(f"{name}: Final[{made[1]}]")
        elif re.match(r'[-\d(]|""', value):
            kind = "Final[int]" if each.indent else "Final"
            self._body.append(f"{name}: {kind} = {value}")

    def _function(
        self, each: Statement, kind: str, of_c: str, name: str, inside: str, told: str | None
    ) -> None:
        parts = [_parameter(part, is_first=place == 0) for place, part in enumerate(_split(inside))]
        is_silent = not of_c and "@property" not in self._decorators
        result = told or each.told or ("None" if is_silent else _of_c(of_c))
        if result and all(parts) and name != "__dealloc__":
            margin = " " * each.indent
            head = f"{kind.replace('cp', '')} {name.replace('__cinit__', '__init__')}"
            self._body += [margin + line for line in self._decorators if "cython" not in line]
            self._body.append(f"{margin}{head}({', '.join(parts)}) -> {result}: ...")


def _parameter(part: str, *, is_first: bool) -> str:
    """Return a parameter with its type; an empty text if that is not known."""
    found = _PARAMETER.fullmatch(part)
    if found is None:
        return ""
    of_c, name, told, default = found.groups()
    if name in {"*", "/"} or (name == "self" and is_first):
        return name
    if not told and (told := _of_c(of_c)) and (default or "").endswith("None"):
        told = f"{told} | None"
    return told and f"{name}: {told}{' = ...' if default else ''}"


def _of_c(kind: str) -> str:
    """Return the type in Python of a type in C; an empty text if it says too little."""
    kind = kind.strip()
    if kind in _VAGUE or not kind.replace(" ", "").isidentifier():
        return ""
    return "int" if set(kind.split()) <= _NUMBERS else _OF_C.get(kind, kind)


def _split(inside: str) -> list[str]:
    """Return the parameters of a function."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _blank(match: re.Match[str]) -> str:
    """Return a string without its words, and of a comment its type; both are marked."""
    if match[0].startswith("#"):
        told = _TOLD.fullmatch(match[0])
        return f"\1{told[1]}" if told else ""
    return '""' + "\0" * match[0].count("\n")


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a source; other comments are left out."""
    first, end, code = 0, 0, ""
    for line in WORDS.sub(_blank, text).split("\n"):
        code += f" {line}" if code else line
        end += line.count("\0") + 1
        if sum(map(code.count, "([{")) > sum(map(code.count, ")]}")):
            continue
        code, _, told = code.replace("\0", "").partition("\1")
        if code.strip():
            whole = re.sub(r"([(\[]) | (?=[)\]])", r"\1", " ".join(code.split()))
            yield Statement(len(code) - len(code.lstrip()), whole, told, first, end)
        first, code = end, ""


def stub_of(source: Path) -> str:
    """Return the stub of a Cython source and of its declarations."""
    stub = _Stub(source)
    declarations = source.with_suffix(".pxd")
    if declarations.is_file():
        for each in statements(declarations.read_text()):
            if each.indent == 0:
                found = _CLASS.fullmatch(each.code)
                attributes = stub.attributes.setdefault(found[1] if found else "", [])
            else:
                attributes.append(each)
    for each in statements(source.read_text()):
        stub.add(each)
    return stub.text()


def write_stubs(target: Path) -> list[Path]:
    """Write the stubs below a folder, laid out as the sources are; return those that changed.

    Another program may read them meanwhile, so each is replaced as a whole. A stub whose source is
    gone is deleted: type checkers would read it instead of a Python module of that name.
    """
    changed = []
    sources = [path for each in PACKAGES for path in sorted((ROOT / each).rglob("*.pyx"))]
    places = {target / path.relative_to(ROOT).with_suffix(".pyi"): path for path in sources}
    for place, source in places.items():
        stub = stub_of(source)
        if not place.is_file() or place.read_text() != stub:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".{place.name}.{os.getpid()}")
            temporary.write_text(stub)
            temporary.replace(place)
            changed.append(place)
    for stale in {path for each in PACKAGES for path in (target / each).rglob("*.pyi")} - {*places}:
        stale.unlink(missing_ok=True)
        changed.append(stale)
    return changed


def plugin(version: str) -> type:  # noqa: ARG001 - mypy's signature
    """Write the stubs; if one has changed, start mypy again: it has already listed the files.

    A program that runs mypy inside of itself goes on, and sees new stubs the next time.
    """
    from mypy.plugin import Plugin  # noqa: PLC0415 - the build has no mypy

    try:
        has_changed = bool(write_stubs(ROOT))
    except OSError as error:
        sys.exit(
            f"the stubs of compiled modules cannot be written ({error}); run python hatch_stubs.py "
            "where this folder may be written"
        )
    if has_changed and "mypy" in Path(sys.argv[0]).parts:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same command
    return Plugin


if __name__ == "__main__":
    write_stubs(ROOT)
