"""The stubs of compiled modules: type checkers read what the sources say, and nothing else."""

import ast
import errno
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hatch_build
import hatch_stubs

SOURCE = '''
import time
from typing import TYPE_CHECKING

cimport cython
from libc.stdint cimport int64_t
from siltstone.storage.clock cimport Clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Generic, TypeVar

    _T = TypeVar("_T")

cpdef enum:
    A = 1  # a comment

B = 0.5
cdef int64_t hidden = 3
rows = list_rows()  # type: list[int]


@cython.final
cdef class Basket:  # type: Generic[_T]
    """A class: `def f(self): ...`."""

    cdef readonly Py_ssize_t count, weight
    cdef public object clock  # type: Clock | None
    cdef dict _items

    def __cinit__(self, Clock clock not None, *, bint is_open=True, str name=None):
        self.clock = clock

    @property
    def items(self) -> list[_T]:
        return list(self._items)

    cpdef take(
        self, object key: str,  # the first
        long long most=3,
    ):  # -> _T | None
        return None

    cdef int hold(self, object what) except -1:
        return 0

    def untold(self, what):
        return what

    async def wait(self, work: Sequence[_T]):
        pass


cpdef bint is_late(Clock clock) noexcept:
    return True
'''
STUB = """
from typing import Any
from typing import Final
from siltstone.storage.clock import Clock
from collections.abc import Sequence
from typing import Generic
from typing import TypeVar
_T = TypeVar("_T")
A: Final[int] = 1
B: Final = 0.5
rows: list[int]
class Basket(Generic[_T]):
    ...
    part: Final[Any]
    count: Final[int]
    weight: Final[int]
    clock: Clock | None
    def __init__(self, clock: Clock, *, is_open: bool = ..., name: str | None = ...) -> None: ...
    @property
    def items(self) -> list[_T]: ...
    def take(self, key: str, most: int = ...) -> _T | None: ...
    async def wait(self, work: Sequence[_T]) -> None: ...
def is_late(clock: Clock) -> bool: ...
"""


def test_a_stub_says_what_its_source_says(tmp_path: Path) -> None:
    """A type of C, or an annotation; a name without either is left out, and so is one of C."""
    source = tmp_path / "basket.pyx"
    source.write_text(SOURCE)
    source.with_suffix(".pxd").write_text(
        "cdef class Basket:\n    cdef readonly object part  # type: Any\n    cdef int kept\n"
    )

    assert hatch_stubs.stub_of(source) == STUB.lstrip()


def test_only_stubs_that_changed_are_written(tmp_path: Path) -> None:
    """Else mypy would start again for ever."""
    written = hatch_stubs.write_stubs(tmp_path)
    written[0].write_text("")

    assert {path.relative_to(tmp_path).with_suffix(".pyx").as_posix() for path in written} == set(
        hatch_build.KERNELS
    )
    assert hatch_stubs.write_stubs(tmp_path) == written[:1]


def test_a_stub_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs may write the stubs at once, and read what the other has written."""
    place = hatch_stubs.write_stubs(tmp_path)[0]
    place.write_text("old")
    write = Path.write_text

    def write_and_look(path: Path, text: str) -> int:
        count = write(path, text)
        assert place.read_text() == "old"
        return count

    monkeypatch.setattr(Path, "write_text", write_and_look)

    assert hatch_stubs.write_stubs(tmp_path) == [place]
    assert place.read_text() != "old"
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]


def test_a_stub_without_its_source_goes(tmp_path: Path) -> None:
    """Else type checkers would read it instead of the module of that name."""
    stale = hatch_stubs.write_stubs(tmp_path)[0].with_name("stale.pyi")
    stale.touch()

    assert hatch_stubs.write_stubs(tmp_path) == [stale]
    assert not stale.exists()


@pytest.mark.parametrize(
    ("program", "has_changed", "starts"),
    [
        (".venv/bin/mypy", True, 1),
        (".venv/bin/mypy", False, 0),
        ("lib/mypy/__main__.py", True, 1),
        ("bin/pylsp", True, 0),
    ],
)
def test_mypy_starts_again_when_a_stub_has_changed(
    monkeypatch: pytest.MonkeyPatch, program: str, has_changed: bool, starts: int
) -> None:
    """It has looked for files before; a program that has mypy inside is not replaced."""
    started: list[object] = []
    monkeypatch.setattr(hatch_stubs, "write_stubs", lambda _: ["a.pyi"] * has_changed)
    monkeypatch.setattr("os.execv", lambda *command: started.append(command))
    monkeypatch.setattr("sys.argv", [program, "."])

    plugin = hatch_stubs.plugin("2.4")

    assert started == [(sys.executable, sys.orig_argv)] * starts
    assert plugin.__name__ == "Plugin"


def test_a_folder_that_takes_no_stub_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by a traceback of mypy."""

    def refuse(_: Path) -> list[Path]:
        raise OSError(errno.EROFS, "Read-only file system", "a.pyi")

    monkeypatch.setattr(hatch_stubs, "write_stubs", refuse)

    with pytest.raises(SystemExit, match=r"'a\.pyi'\); run python hatch_stubs\.py where"):
        hatch_stubs.plugin("2.4")


def load(kernel: str) -> ModuleType:
    """Return a compiled module."""
    return importlib.import_module(kernel.removesuffix(".pyx").replace("/", "."))


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the functions and classes of a block, less the protocols of type checkers."""
    return {
        each.name: each
        for each in body
        if isinstance(each, ast.FunctionDef)
        or (isinstance(each, ast.ClassDef) and "Protocol" not in map(ast.unparse, each.bases))
    }


def has_parameters(function: ast.stmt, value: Any) -> bool:
    """Tell whether a stub names the parameters that Cython has given a function."""
    assert isinstance(function, ast.FunctionDef)
    [written] = ast.parse(f"def _{value.__text_signature__}: ...").body
    assert isinstance(written, ast.FunctionDef)
    told, there = (list_parameters(each.args) for each in (function, written))
    return [each for each in there if each not in {"_", "args", "kwargs"}] == told


def list_parameters(arguments: ast.arguments) -> list[str]:
    """Return the names of parameters, without those of `*` and `**`."""
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@pytest.mark.parametrize("kernel", hatch_build.KERNELS)
def test_a_stub_has_what_its_module_has(kernel: str) -> None:
    """Functions with their parameters, classes with their methods and attributes."""
    told = defined(ast.parse(hatch_stubs.stub_of(hatch_build.ROOT / kernel)).body)
    module = load(kernel)

    assert told
    for name, node in told.items():
        if isinstance(node, ast.FunctionDef):
            assert has_parameters(node, getattr(module, name)), name
            continue
        assert isinstance(node, ast.ClassDef)
        members = set(defined(node.body)) | {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        assert members - {"__init__"} <= set(dir(getattr(module, name))), name
