"""Settles the leftovers of a crash in a partition folder, when it is opened.

The cleaner and the splitting of a segment write ``.cleaned`` files, rename a finished group to
``.swap`` from the highest base down, mark the old segments ``.deleted``, and remove the suffix
``.swap`` from the lowest base up, the ``.log`` of each segment first. The order shows what to do
(docs/on-disk-format.md): if a ``.cleaned`` file remains, the group is incomplete and the change is
undone; otherwise the change is completed.
"""

from collections.abc import Iterable
from pathlib import Path

from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.files import SegmentName
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment

_SNAPSHOT_OF_METADATA_DELETED = ".checkpoint.deleted"
_REPLACED = (files.LEADER_EPOCHS, files.PARTITION_METADATA, files.MOVED)


def settle(path: Path, config: TopicConfig) -> list[SegmentName]:
    """Undo or complete a change that a crash interrupted; return the segments' files after that.

    Temporary files, which a crash has left half written, are deleted. The order of the steps is
    part of the format. Each may be interrupted and repeated.

    Raises:
        OSError: The folder cannot be read or changed. If a link is in it, nothing is changed.
    """
    names = files.list_folder(path)
    deleted = {name for name in names if _is_deleted(name) or _is_half_written(name)}
    parsed = {name: each for name in names - deleted if (each := files.parse_name(name))}
    cleaned = {name for name, each in parsed.items() if each.suffix == files.CLEANED}
    swaps = {name for name, each in parsed.items() if each.suffix == files.SWAP}
    if files.MOVED in names:  # this folder was a copy whose original is gone
        files.unlink(path / files.MOVED)
    if not deleted and not cleaned and not swaps:
        return list(parsed.values())
    _unlink(path, deleted)
    unfinished = _unfinished(swaps, cleaned, parsed)
    _unlink(path, unfinished)
    _unlink(path, cleaned)
    swaps -= unfinished
    replaced = _replaced(path, config, swaps, parsed)
    _unlink(path, replaced)
    for name in sorted(swaps, key=lambda name: _order(parsed[name])):
        files.rename(path / name, path / name.removesuffix(files.SWAP))
    files.fsync_directory(path)
    left = parsed.keys() - unfinished - cleaned - replaced
    return list({parsed[name]._replace(suffix="") for name in left})


def _is_deleted(name: str) -> bool:
    return name.endswith(files.DELETED) and not name.endswith(_SNAPSHOT_OF_METADATA_DELETED)


def _is_half_written(name: str) -> bool:
    """Tell whether a file was written to replace another one, and never did."""
    whole = name.removesuffix(files.TEMPORARY)
    return whole != name and (whole in _REPLACED or files.parse_name(whole) is not None)


def _unfinished(swaps: set[str], cleaned: set[str], parsed: dict[str, SegmentName]) -> set[str]:
    """Return the ``.swap`` files of a group of segments that still has ``.cleaned`` files."""
    if not cleaned:
        return set()
    lowest = min(parsed[name].base_offset for name in cleaned)
    return {name for name in swaps if parsed[name].base_offset >= lowest}


def _replaced(
    path: Path, config: TopicConfig, swaps: set[str], parsed: dict[str, SegmentName]
) -> set[str]:
    """Return the files of the old segments, with snapshots, that ``.log.swap`` files replace.

    If the new segment is empty, Kafka keeps the old files of the same base, such as the transaction
    index of data that is gone; here they are deleted.
    """
    bases = [parsed[name].base_offset for name in swaps if parsed[name].kind == files.LOG]
    if not bases:
        return set()
    kept = OpenFiles()
    end = max(
        LogSegment(path, base, config, now_ms=0, open_files=kept, suffix=files.SWAP)
        .load()
        .next_offset()
        for base in bases
    )
    return {
        name
        for name, each in parsed.items()
        if not each.suffix
        and (
            min(bases) <= each.base_offset < end
            or (each.base_offset in bases and each.kind != files.SNAPSHOT)
        )
    }


def _order(name: SegmentName) -> tuple[int, int]:
    """Return the sort key by which ``.swap`` is removed: segments ascending, ``.log`` first."""
    return name.base_offset, files.SEGMENT_KINDS.index(name.kind)


def _unlink(path: Path, names: Iterable[str]) -> None:
    for name in sorted(names):
        files.unlink(path / name)
