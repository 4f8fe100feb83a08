"""The machine and the commit, without which a result means nothing."""

from __future__ import annotations

import contextlib
import datetime as dt
import mmap
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14; the mmap module has no name for it


def facts() -> dict[str, object]:
    """Return machine, date and commit."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    ).stdout.strip()
    return {
        "commit": commit or "unknown",
        "machine": f"{os.cpu_count()} x {model}, Linux {platform.release()}, "
        f"Python {platform.python_version()}",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


@contextlib.contextmanager
def ballast(gibibytes: float) -> Iterator[None]:
    """Hold so much memory, touched, that what the page cache frees is what it gets next."""
    size = int(gibibytes * (1 << 30))
    if not size:
        yield
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(_POPULATE_WRITE)
        yield
