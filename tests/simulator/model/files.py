"""The files of a stopped broker, as ``siltstone dump-log`` reads them: all of them are whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.broker.commands.internal_records import find_reader
from siltstone.protocol.errors import ProtocolError
from siltstone.storage.dump.any_file import dump_files
from siltstone.storage.dump.log_file import Describe, Wanted
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from siltstone.protocol.records.record import Record
    from tests.simulator.world.disk import Disk


def judge_files(disk: Disk, root: str) -> None:
    """Read all files below a folder but those of deleted topics, while no broker runs.

    A segment that is compacted twice leaves a ``.log.deleted`` of the second time, but may have had
    a transaction index the first time only, which does not fit that file.

    Raises:
        Wrong: One of them is not whole.
    """
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
