"""``siltstone-directories.json``: which log directories a broker has, by their ids.

Each of several directories has the file. So a start notices that an empty folder stands in the
place of a directory, because its disk is not mounted, or that log.dirs lacks one. Kafka's metadata
has the directory's id of each partition for this, and keeps such partitions offline.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.directory.catalog import CatalogState
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError
from siltstone.storage.directory.opening import live_folders
from siltstone.storage.directory.strict_json import read_sealed, seal
from siltstone.storage.topic_partition import TopicPartition

_VERSION = 1


class RollCall:
    """The directories of a start, and those that the last one had. Reads the files; blocks.

    Raises:
        LogDirError: The file of a directory cannot be used.
    """

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self._present = {each.path: each.directory_id for each in directories}
        self._noted = {path: _read(path) for path in self._present}

    def check(self, state: CatalogState, *, is_found: bool) -> None:
        """Refuse the start if a directory is gone, and with it partitions or the catalogue. Blocks.

        ``is_found`` tells whether any directory has a catalogue.

        Raises:
            LogDirError: The start would make partitions again, empty, that are only out of reach.
        """
        gone = _find_gone(self._present, self._noted)
        fault = _find_absence(gone, tuple(self._present), state, is_found=is_found)
        if fault is not None:
            raise LogDirError(fault)

    def note(self) -> None:
        """Write the files where they differ, once the start has used the directories. Blocks."""
        if len(self._directories) == 1 and not _find_gone(self._present, self._noted):
            return
        listed = {one: str(path) for path, one in self._present.items()}
        text = {"version": _VERSION, "directories": listed}
        for each in self._directories:
            if self._noted[each.path] == listed:
                continue
            try:
                files.replace_file(
                    each.path / files.LOG_DIRS, seal(json.dumps(text, indent=1).encode())
                )
            except OSError as error:
                each.fail(error)


def find_absence(present: Mapping[Path, str], state: CatalogState, *, is_found: bool) -> str | None:
    """Return why a start refuses directories, given with their ids; None if nothing lacks. Blocks.

    Raises:
        LogDirError: The file of a directory cannot be used.
    """
    gone = _find_gone(present, {path: _read(path) for path in present})
    return _find_absence(gone, tuple(present), state, is_found=is_found)


def _find_gone(
    present: Mapping[Path, str], noted: Mapping[Path, Mapping[str, str]]
) -> dict[str, str]:
    """Return the ids and paths of directories that others have noted and that are not present."""
    known = {one: path for each in noted.values() for one, path in each.items()}
    return {one: path for one, path in known.items() if one not in present.values()}


def _find_absence(
    gone: Mapping[str, str], paths: Sequence[Path], state: CatalogState, *, is_found: bool
) -> str | None:
    if not gone:
        return None
    found = {each for each, _ in live_folders(paths)}
    lost = [
        each
        for name, topic in state.topics.items()
        for each in (TopicPartition(name, index) for index in range(topic.partitions))
        if each not in found
    ]
    if not lost and is_found:
        return None
    lacks = f"{len(lost)} partitions, {lost[0]} among them," if lost else "the catalogue of topics"
    where = " and ".join(f"{path} (directory.id {one})" for one, path in gone.items())
    noted = " ".join(str(path / files.LOG_DIRS) for path in paths)
    return (
        f"log directory {where} is gone, and {lacks} with it: mount its disk, or put it back into "
        f"log.dirs; to go on without, with partitions made again EMPTY, rm -f {noted}"
    )


def _read(directory: Path) -> dict[str, str]:
    """Return the ids and paths of the directories when the file was written; none without one."""
    path = directory / files.LOG_DIRS
    try:
        known = read_sealed(files.read_whole(path), _VERSION, ["directories"])["directories"]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LogDirError(f"{path} cannot be read: {error}; check the disk") from error
    except (ValueError, KeyError) as error:
        raise LogDirError(
            f"{path} cannot be used: {error}; remove it if no log directory is missing"
        ) from error
    return {str(one): str(path) for one, path in known.items()}
