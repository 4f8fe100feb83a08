"""Files of Cython read as those of Python, and prose read apart from code."""

import ast
from pathlib import Path, PurePosixPath

import pytest

from tools.house import PRODUCT
from tools.sources import Import, Tree, code_of, imports_of, outline, parse, prose_of

CYTHON = '''"""One."""
cimport cython
from siltstone.a.b cimport (  # of C
    c as d,
    e,
)
from siltstone.a import f

cdef extern from "<x.h>" nogil:
    ctypedef struct Region "Py_buffer":
        const unsigned char* buf
        Py_ssize_t len

    int send "send_octets" (int socket, const void* data) except -1
    int FLAG, OTHER

cdef enum Kind:
    SMALL = 1 << 2  # small

ctypedef const unsigned char* Octets
NAME = "cdef int no(): ("

@cython.final
cdef class Table(Base):
    """Two.

    Three.
    """

    cdef readonly long long a, b
    cpdef bint has(self, object key, long long at=(1, 2)) except *

    def __cinit__(self, *rows):
        from siltstone.later import g
        cdef int i = 0
        if rows:
            # nothing
            i = f(1,
                  2)

cdef inline (long long, long long) pair_of(char[8] text, object none not None) noexcept nogil:
    return 1, 2
'''
CODE = PurePosixPath("a.pyx")


def test_outline() -> None:
    """Names, parameters, docstrings and lines are those of the text."""
    module = ast.parse(outline(CYTHON))
    nodes = list(ast.walk(module))
    names = [
        f"{node.lineno}-{node.end_lineno} {node.name}({ast.unparse(node.args)})"
        for node in nodes
        if isinstance(node, ast.FunctionDef)
    ]
    classes = [f"{node.lineno} {node.name}" for node in nodes if isinstance(node, ast.ClassDef)]
    variables = [ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)]
    table = next(node for node in module.body if getattr(node, "name", "") == "Table")

    assert names == [
        "14-14 send(socket, data)",
        "41-42 pair_of(text, none)",
        "31-31 has(self, key, at)",
        "33-39 __cinit__(self, rows)",
    ]
    assert classes == ["10 Region", "24 Table"]
    assert variables == ["FLAG", "OTHER", "SMALL", "Octets", "NAME", "buf", "len", "a", "b"]
    assert isinstance(table, ast.ClassDef)
    assert (ast.get_docstring(module), ast.get_docstring(table)) == ("One.", "Two.\n\nThree.")
    assert [ast.unparse(base) for base in table.bases] == ["Base"]


def test_imports() -> None:
    """A cimport is an import; what only a type checker reads is told apart."""
    python = "if TYPE_CHECKING:\n    from a import b\nfrom . import c\ndef f():\n    import d\n"

    assert [tuple(each) for each in imports_of(parse(CODE, CYTHON))] == [
        ("cython", 2, False),
        ("siltstone.a.b.c", 3, False),
        ("siltstone.a.b.e", 3, False),
        ("siltstone.a.f", 7, False),
        ("siltstone.later.g", 34, False),
    ]
    for name in ("a.py", "a.pyx"):
        assert list(imports_of(parse(PurePosixPath(name), python))) == [
            Import("a.b", 2, is_for_types=True),
            Import("..c", 3, is_for_types=False),
            Import("d", 5, is_for_types=False),
        ]


@pytest.mark.parametrize(
    ("name", "text", "code", "prose"),
    [
        ("a.py", 'x = f"who"  # why\ny', "x =         \ny", 'f"who"# why'),
        ("a.pxd", "'''a\n#b''' c # d", "\n       c", "'''a\n#b'''# d"),
        ("a.h", "a /* b\n*/ 'c' // d", "a\n", "/* b\n*/'c'// d"),
        ("a.md", "a `b`\n```\nc\n```\nd", "", "a \n\n\n\nd"),
    ],
)
def test_prose(name: str, text: str, code: str, prose: str) -> None:
    """Comments and strings are prose, and both parts keep their lines."""
    path = PurePosixPath(name)

    if code:
        assert [line.split() for line in code_of(path, text).split("\n")] == [
            line.split() for line in code.split("\n")
        ]
    assert prose_of(path, text).replace(" ", "") == prose.replace(" ", "")


def test_every_file_has_an_outline() -> None:
    """Each file of Cython is read, and none is without a name or an import."""
    tree = Tree(Path(__file__).parents[2], PRODUCT)
    cython = [path for path in tree.product if path.suffix != ".py"]

    assert len(cython) > 5
    assert [path for path in cython if not any(map(is_telling, tree.product[path].body))] == []


def is_telling(node: ast.stmt) -> bool:
    """Tell whether a statement names something."""
    return isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef)
