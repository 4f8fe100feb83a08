"""What `make figures` counts, on a small tree whose figures are known."""

import json
import subprocess
from pathlib import Path

import pytest

from tools.figures import COUNTS, figures, main

FILES = {
    "broker/__init__.py": '"""A package."""\n',
    "broker/server.py": "from siltstone.broker.net import loop\n",
    "broker/net/loop.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from siltstone.broker import server\n"
        "    from siltstone.broker.handlers import fetch\n"
    ),
    "broker/long.py": "def short():\n" + 59 * "    pass\n" + "def long():\n" + 60 * "    pass\n",
    "broker/handlers/fetch.py": (
        "from siltstone.broker.net import loop\n"
        "def fetch(row):\n"
        '    """What can not be done anew by whoever answer_rows."""\n'
        "    answer_rows(field_of(row, 3))\n"
    ),
    "broker/http/page.py": "from siltstone.broker.handlers import fetch\n" + "#\n" * 39,
    "config/known.tsv": "one\ntwo\n",
    "docs/architecture.md": (
        "## Walk 1: a fetch\n\n1. One.\n\nTwo files: `broker/long`, `storage/deep`,\n"
        "`protocol/core/_records`, `core`.\n\n## Walk 2: more, told of\n`told of`\n"
    ),
    "storage/_kernel.py": "from siltstone.storage import below\n",
    "storage/_kernel.pxd": "from siltstone.storage.below cimport x\n",
    "storage/below.pyx": "cdef inline int spare(): return 1\n",
    "storage/directory/lock.pyx": (
        "cimport cython\n"
        "from siltstone.storage.log.end cimport (\n    one, x,\n)\n"
        "cdef class Lock:\n    cdef (int, int) take(self) except *:\n"
        f"        return 1, 2\n{60 * chr(10)}        pass\n"
    ),
    "storage/log/end.pxd": f"cdef int x\n#{160 * ' '}\n",
    "storage/log/end.pyx": "from siltstone.storage.directory.lock cimport Lock\ncdef int x = 1\n",
    "storage/kernel.py": (
        "try:\n"
        "    from siltstone.storage.below import x\n"
        "except ModuleNotFoundError: from siltstone.storage.plain_below import x\n"
    ),
    "storage/appending.py": (
        "class Sink(Protocol):\n    def sink(self): ...\n"
        "class LogEnd:\n    def take(self): ...\n    def append(self): self.appends = 1\n"
    ),
    "storage/deep.py": (
        "from typing import Protocol\n"
        "class A(Protocol): ...\n"
        "class B(A): ...\n"
        "class E(ValueError): ...\n"
        "class F(E): ...\n"
        "class G(F): ...\n"
    ),
    "storage/deeper.py": "from siltstone.storage.deep import B\nclass C(B): ...\n",
    "tests/reference/plain.py": "\n",
    "tests/test_it.py": (
        "from siltstone.storage import _kernel\n"
        "def test(monkeypatch, self, row):\n"
        "    self._mine()\n"
        "    row._replace(log.__class__)\n"
        "    log._view = log._end\n"
        '    monkeypatch.setattr("broker.server._port", 1)\n'
        '    monkeypatch.setattr(log, "_closed", 1)\n'
        '    print("_closed")\n'
        "    long.short()\n"
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a checkout of `FILES`, and of one file that git does not track."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "broker" / "scratch.py").write_text("\n" * 100, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("product lines of broker", 171),
        ("product lines of config", 2),
        ("product lines without pipeline", 264),
        ("lines of tests without tests/reference", 9),
        ("lines of tools", 0),
        ("lines of .pxd", 3),
        ("compiled code and its scaffolding, files", 5),
        ("compiled code and its scaffolding, lines", 74),
        ("entries at the top of broker/", 6),
        ("entries at the top of cleaner/", 0),
        ("cycles of imports", 2),
        ("two-way pairs of folders of storage, at runtime", 1),
        ("two-way pairs of folders of broker, types included", 1),
        ("two-way pairs of folders of broker, at runtime", 0),
        ("arrows that run up in storage", 1),
        ("imports that run up in storage", 1),
        ("arrows that run up in broker", 4),
        ("imports that run up in broker, at runtime", 2),
        ("files of walk 1: a fetch", 2),
        ("mechanisms that let others be served", 2),
        ("ways to append", 2),
        ("protocols with at most one implementer", 1),
        ("lines of protocols with at most one implementer", 2),
        ("forbidden: answer_rows", 1),
        ("forbidden: column by number", 1),
        ("forbidden: sleep(0)", 0),
        ("English: can not", 1),
        ("English: who, whoever", 1),
        ("English: all of these, in pages", 1),
        ("English: all of these, in tests and tools", 0),
        (".pxd lines above 160 characters", 1),
        ("files below 40 lines", 10),
        ("commit subjects that break the rule", 0),
        ("functions above 60 lines", 2),
        ("classes that inherit deeper than two", 1),
        ("names that nothing uses", 7),
        ("private names used by tests", 5),
    ],
)
def test_counts(tree: Path, what: str, count: int) -> None:
    """Each figure counts what it says, and nothing that git does not know."""
    assert {figure.what: figure.number for figure in figures(tree)}[what] == count


def test_names(tree: Path) -> None:
    """What was counted is named, so that it can be found."""
    names = {figure.what: list(figure.names) for figure in figures(tree)}

    assert names["cycles of imports"] == [
        "broker.handlers.fetch, broker.net.loop, broker.server",
        "storage.directory.lock, storage.log.end",
    ]
    assert names["arrows that run up in broker"] == [
        "arrow broker/handlers -> net: 1",
        "arrow broker/http -> handlers: 1",
        "arrow broker/net -> handlers: 1",
        "arrow broker/net -> server: 1",
    ]
    assert names["imports that run up in storage"] == ["storage.directory.lock -> storage.log.end"]
    assert names["forbidden: column by number"] == ["broker/handlers/fetch.py:4 field_of(row, 3)"]
    assert names["English: who, whoever"] == ["broker/handlers/fetch.py:3 whoever"]
    assert names["files of walk 1: a fetch"] == ["broker/long", "storage/deep"]
    assert names["functions above 60 lines"] == [
        "broker/long.py:61 long, 61 lines",
        "storage/directory/lock.pyx:6 take, 63 lines",
    ]
    assert names["classes that inherit deeper than two"] == ["C < B < A"]
    assert names["names that nothing uses"] == [
        "broker/long.py short",
        "broker/long.py long",
        "storage/appending.py Sink",
        "storage/appending.py LogEnd",
        "storage/below.pyx spare",
        "storage/deep.py G",
        "storage/deeper.py C",
    ]
    assert [name.split()[1] for name in names["private names used by tests"]] == [
        "siltstone.storage._kernel",
        "log._end",
        "log._view",
        "broker.server._port",
        "_closed",
    ]


def test_prints_a_table(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A figure is a line; what was counted follows only where it is asked for."""
    main([str(tree)])
    plain = capsys.readouterr().out.splitlines()
    main([str(tree), "--names"])
    named = capsys.readouterr().out.splitlines()

    assert len(plain) == len(figures(tree))
    assert [line for line in named if not line.startswith("    ")] == plain
    assert "    storage.directory.lock, storage.log.end" in named


def test_says_how_it_counts(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each figure is followed by how it is counted, where that is asked for."""
    main([str(tree), "--how"])
    how = capsys.readouterr().out

    assert all(count.__doc__ and count.__doc__.split("\n")[0] in how for count in COUNTS)


def test_prints_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get the same figures."""
    main([str(tree), "--json", "--names"])

    rows = json.loads(capsys.readouterr().out)

    assert [row["number"] for row in rows] == [figure.number for figure in figures(tree)]
