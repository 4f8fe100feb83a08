"""Which places of a small daemon ask past a seam."""

import subprocess
from pathlib import Path

import pytest

from tools.seams import DAEMON, find_places
from tools.sources import Tree

FILES = {
    "storage/clock.py": "import time\ndef now(): return time.time()\n",
    "storage/late.py": (
        "import time as t\n"
        "from time import perf_counter\n"
        "def late(at=t.monotonic): return perf_counter() + t.gmtime(1)[0]\n"
    ),
    "storage/paths.py": (
        "import os\n"
        "from pathlib import Path\n"
        "from siltstone.storage import files\n"
        "def read(path: Path, status: os.stat_result):\n"
        "    path.exists()\n"
        "    files.exists(path)\n"
        "    return open(os.fspath(path), os.O_RDONLY)\n"
    ),
    "storage/copy.pyx": (
        "import os\n"
        'cdef extern from "x.h":\n'
        "    int pwrite(int file)\n"
        "cdef run(int file):\n"
        '    """Call os.close(file)."""\n'
        "    self.pwrite(file)\n"
        "    os.urandom(pwrite(file))\n"
    ),
    "broker/net/wire.h": "#include <sys/socket.h>\nint take(int a) { return recv(a); }\n",
    "broker/locks.py": (
        "import queue\n"
        "from threading import Lock\n"
        "def wait(lock: Lock, loop) -> Lock:\n"
        "    try: loop.run_in_executor(None, len)\n"
        "    except queue.Empty: return loop.time()\n"
        "    return Lock()\n"
    ),
    "broker/commands/now.py": "import time\nprint(time.time())\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a checkout of `FILES`."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return Tree(tmp_path, DAEMON)


def test_finds_what_asks_past_a_seam(tree: Tree) -> None:
    """A name under another name, a method and C count; the seam itself, types and commands not."""
    assert [tuple(place) for place in find_places(tree)] == [
        ("threads", ".run_in_executor", "broker/locks.py:4"),
        ("threads", "threading.Lock", "broker/locks.py:6"),
        ("network", "recv", "broker/net/wire.h:2"),
        ("disk", "pwrite", "storage/copy.pyx:7"),
        ("randomness", "os.urandom", "storage/copy.pyx:7"),
        ("clock", "time.monotonic", "storage/late.py:3"),
        ("clock", "time.perf_counter", "storage/late.py:3"),
        ("disk", ".exists", "storage/paths.py:5"),
        ("disk", "open", "storage/paths.py:7"),
    ]
