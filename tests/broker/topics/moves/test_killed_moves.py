"""kill -9 at every step of a move: one copy is served then, with all that was acknowledged."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from siltstone.storage import files
from siltstone.storage.log.log import Log
from tests.support.appending import append
from tests.support.faults import install
from tests.support.invariants import check_log
from tests.support.logs import bytes_of
from tests.support.moves import Directories, copies, folders

CHANGES = frozenset({"rename", "unlink", "mkdir", "create"})


class Moment(NamedTuple):
    """The disks before a change of names, and what had been acknowledged by then."""

    root: Path
    end_offset: int
    change: str


@dataclass(slots=True)
class Moments:
    """Looks like a fault of the disk, and copies both directories before each change of names."""

    root: Path
    copies: Path
    log: Log
    found: list[Moment] = field(default_factory=list)

    def strikes(self, call: str, path: str) -> bool:
        """Keep the moment; nothing fails."""
        if call in CHANGES and "/data-" in path:
            root = self.copies / str(len(self.found))
            end_offset = self.log.log_end_offset
            try:
                shutil.copytree(self.root, root, ignore=_gone)
            except (shutil.Error, OSError):  # another thread was amid a change: no moment at all
                shutil.rmtree(root, ignore_errors=True)
            else:
                self.found.append(Moment(root, end_offset, f"{call} {path}"))
        return False


def _gone(_: str, names: list[str]) -> list[str]:
    """Leave out what is renamed while it is being copied."""
    return [name for name in names if name.endswith(".tmp")]


async def test_every_moment(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start ends what was begun, whatever the moment; the log is a prefix and holds all of it."""
    async with Directories(memory_path / "home") as home:
        log = await home.create()
        for _ in range(2):
            append(log, 3)
            log.roll()
        log.delete_records(1)
        append(log, 3)
        home.services.logs.checkpoint(files.LOG_START_OFFSETS)
        home.services.logs.background.drain()
        moments = Moments(memory_path / "home", memory_path / "moments", log)
        disk = install(monkeypatch)
        disk.faults.append(moments)  # type: ignore[arg-type]  # it is asked as one
        await home.move()
        append(log, 2)
        home.services.logs.background.drain()
        monkeypatch.undo()
        data = bytes_of(log, 1)
    names = [moment.change for moment in moments.found]

    assert any(name.startswith("rename") and name.endswith("-future") for name in names)
    assert any(name.endswith("data-0/orders-0") for name in names)
    for moment in moments.found:
        async with Directories(moment.root) as home:
            await home.settle()
            check_log(home.log())

            assert home.log().log_end_offset >= moment.end_offset, moment.change
            assert home.log().log_start_offset == 1, moment.change
            assert data.startswith(bytes_of(home.log(), 1)), moment.change
            served = [name for each in (home.first, home.other) for name in folders(each)]
            assert served.count("orders-0") == 1, moment.change
            assert not copies(moment.root), moment.change
