"""The files of a broker: which bytes are on the disk, and what ``siltstone dump-log`` reads.

All files that a clean stop leaves are whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.broker.commands.internal_records import find_reader
from siltstone.protocol.errors import ProtocolError
from siltstone.storage.dump.any_file import dump_files
from siltstone.storage.dump.log_file import Describe, Wanted
from siltstone.storage.files import PINS
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from collections.abc import Iterable

    from siltstone.protocol.records.record import Record
    from siltstone.storage.log.log import Log
    from tests.simulator.world.disk import Disk

_OF_A_SEGMENT: Final = re.compile(r"\d{20}\.(log|index|timeindex|txnindex)$")


def judge_flushed(disk: Disk, logs: Iterable[Log]) -> None:
    """See that segments below the recovery point are on the disk: no start scans them.

    The aborted transactions of the active one are, too, once all of it is flushed: a flush behind
    its roll has no cause to look at them again.

    Raises:
        Wrong: A power failure may take bytes of one.
    """
    for log in logs:
        path, (end, segments, _) = str(log.path), log.view
        flushed = log.recovery_point
        bases = [each.base_offset for each in segments]
        below = bases[: max(0, bisect_right(bases, flushed) - 1)]
        for name in disk.unsynced(path):
            base, _, kind = name.partition(".")
            is_below = base.isdigit() and int(base) in below
            is_below |= kind == "txnindex" and flushed >= end
            if is_below and _OF_A_SEGMENT.search(name):
                raise Wrong(f"{path}/{name} is below the recovery point and not on the disk")


def judge_files(disk: Disk, root: str) -> None:
    """Read all files below a folder but those of deleted topics, behind a clean stop.

    Those of segments are on the disk, but for links that a pin has left where they could not be
    deleted: the next start deletes them.

    A segment that is compacted twice leaves a ``.log.deleted`` of the second time, but may have had
    a transaction index the first time only, which does not fit that file.

    Raises:
        Wrong: One of them is not whole.
    """
    for path in disk.unsynced(root):
        if "-delete/" not in path and PINS not in path and _OF_A_SEGMENT.search(path):
            raise Wrong(f"{path} is not on the disk after a clean stop")
    paths = [path for path, _, _ in disk.rooms(root) if "-delete/" not in path]
    folders = {Path(root, path).parent: None for path in paths}
    lines: list[str] = []
    before, disk.before = disk.before, lambda _kind, _path, size: size
    try:
        dump_files(list(folders), Wanted(deep=True, data=True, describe=_describe), lines.append)
    except ProtocolError as error:
        raise Wrong(f"a record cannot be read: {error}, behind {lines[-1]}") from error
    finally:
        disk.before = before
    path = ""
    for line in lines:
        path = line if line.startswith("/") else path
        if line.startswith("  FAULT") and not path.strip().endswith(".txnindex.deleted"):
            raise Wrong(f"{path.strip()} after a clean stop: {line.strip()}")


def _describe(log: Path) -> Describe | None:
    read = find_reader(log.parent.name.rpartition("-")[0])

    def describe(record: Record) -> dict[str, object] | None:
        return None if read is None or record.key is None else read(record.key, record.value)

    return describe
