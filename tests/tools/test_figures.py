"""What `make figures` counts, on a small tree whose figures are known."""

import json
import subprocess
from pathlib import Path

import pytest

from tools.figures import figures, main

FILES = {
    "broker/__init__.py": '"""A package."""\n',
    "broker/server.py": "from siltstone.broker.net import loop\n",
    "broker/net/loop.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from siltstone.broker import server\n"
    ),
    "broker/long.py": "def short():\n" + 59 * "    pass\n" + "def long():\n" + 60 * "    pass\n",
    "config/known.tsv": "one\ntwo\n",
    "storage/_kernel.py": "from siltstone.storage import below\n",
    "storage/_kernel.pxd": "from siltstone.storage.below cimport x\n",
    "storage/below.pyx": "",
    "storage/kernel.py": (
        "try:\n"
        "    from siltstone.storage.below import x\n"
        "except ModuleNotFoundError: from siltstone.storage.plain_below import x\n"
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
        ("product lines of broker", 126),
        ("product lines of config", 2),
        ("compiled code and its scaffolding, files", 4),
        ("compiled code and its scaffolding, lines", 5),
        ("entries at the top of broker/", 4),
        ("entries at the top of cleaner/", 0),
        ("cycles of imports", 1),
        ("functions above 60 lines", 1),
        ("classes that inherit deeper than two", 1),
        ("names that nothing uses", 4),
        ("private names used by tests", 5),
    ],
)
def test_counts(tree: Path, what: str, count: int) -> None:
    """Each figure counts what it says, and nothing that git does not know."""
    assert {figure.what: figure.number for figure in figures(tree)}[what] == count


def test_names(tree: Path) -> None:
    """What was counted is named, so that it can be found."""
    names = {figure.what: list(figure.names) for figure in figures(tree)}

    assert names["cycles of imports"] == ["broker.net.loop, broker.server"]
    assert names["functions above 60 lines"] == ["broker/long.py:61 long, 61 lines"]
    assert names["classes that inherit deeper than two"] == [
        "storage.deeper.C < storage.deep.B < storage.deep.A"
    ]
    assert names["names that nothing uses"] == [
        "broker/long.py short",
        "broker/long.py long",
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
    assert "    broker.net.loop, broker.server" in named


def test_prints_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get the same figures."""
    main([str(tree), "--json", "--names"])

    rows = json.loads(capsys.readouterr().out)

    assert [row["number"] for row in rows] == [figure.number for figure in figures(tree)]
