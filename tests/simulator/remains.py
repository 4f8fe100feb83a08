"""Leftovers: tasks, threads, descriptors, files and room come back to what the state needs.

`check_running` holds whenever the broker has nothing to do. `find_leftovers` finds nothing as soon
as all deletions have come due, too, on a disk that works.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from siltstone.storage.files import SEGMENT_KINDS
from tests.simulator.incarnation import ROOT
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from tests.simulator.incarnation import Incarnation

_OF_A_DIRECTORY: Final = re.compile(
    r"(meta\.properties|siltstone-[a-z]+\.json|[a-z-]+-offset-checkpoint|cleaner-history\.jsonl"
    r"|\.lock|\.siltstone-(control-(token|address)|fsync-failed|room)"
    r"|\.kafka_cleanshutdown(?=\.tmp))(\.tmp)?$"
)
_OF_A_PARTITION: Final = re.compile(
    r"(leader-epoch-checkpoint|partition\.metadata|\d{20}\.snapshot)$"
)
_PROBE: Final = re.compile(r"/\.siltstone-probe-0\.[0-9a-f]{32}-delete$")
_MOMENT: Final = 5.0
_MOST_OPEN: Final = 2
"""A segment that is written is open once more, to be read."""


def check_running(incarnation: Incarnation) -> None:
    """Look for tasks and threads that nobody needs: of each kind there is one at most.

    Raises:
        Wrong: There is one.
    """
    if _find_crowd(incarnation):
        incarnation.let_pass(_MOMENT)  # the last requests may have begun them
    if crowd := _find_crowd(incarnation):
        raise Wrong(f"{crowd} run, although the broker has nothing to do")


def _find_crowd(incarnation: Incarnation) -> str:
    names = [f"task {name}" for name in incarnation.tasks]
    names += [f"thread {each.name}" for each in incarnation.world.threads]
    for name, count in Counter(names).items():
        if count > 1 or name.startswith("task Task-"):
            return f"{count} of {name}"
    return ""


def find_leftovers(incarnation: Incarnation) -> str:
    """Return a sentence about a descriptor, a file or room that nobody needs; empty without."""
    disk, logs = incarnation.world.disk, incarnation.broker.logs.all_logs()
    if disk.nameless:
        gc.unfreeze()
        gc.collect()  # they may wait for it
    if disk.nameless:
        return f"deleted files are open: {disk.nameless}"
    for path, count in Counter(disk.open_files.values()).items():
        if count > _MOST_OPEN:
            return f"{path} is open {count} times"
    needed = {
        f"{log.path}/{segment.base_offset:020d}{kind}"
        for log in logs
        for segment in log.view[1]
        for kind in SEGMENT_KINDS
    }
    folders = {str(log.path) for log in logs}
    total = 0
    for rest, _, room in disk.rooms(ROOT):
        total += room
        path = f"{ROOT}/{rest}"
        folder, _, name = path.rpartition("/")
        if (
            path not in needed
            and not (folder in folders and _OF_A_PARTITION.match(name))
            and not (rest.count("/") == 1 and _OF_A_DIRECTORY.match(name))
            and not _PROBE.search(folder)
        ):
            return f"nobody needs {path}"
    if disk.used != total:
        return f"the files take {total} bytes, the disk counts {disk.used}"
    return ""
