"""``siltstone-catalog.json``: the metadata of Kafka's ``__cluster_metadata`` in one small file.

The file has topic ids, partition counts and settings of topics, dynamic settings of the broker,
levels of features, and the next block of producer ids. It lies in the first log directory, has one
line for each topic, and is replaced atomically. Without the file, topics are found by their
folders; settings of topics come back only if Kafka's own metadata log exists.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from siltstone.protocol.errors import InvalidTopic
from siltstone.protocol.names import check_topic_name, parse_uuid, uuid_text
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.strict_json import read_sealed, seal
from siltstone.storage.topic_partition import MAX_PARTITIONS

FILE_NAME = "siltstone-catalog.json"
VERSION = 1
_NAMES = (
    "generation", "next_producer_id", "cluster_configs", "broker_configs", "group_configs",
    "client_metrics", "features", "features_epoch", "deleted", "retired", "topics",
)  # fmt: skip
_MAX_LONG = 2**63 - 1
_MAX_LEVEL = 2**15 - 1
_SECRET_MODE = 0o600


class MalformedCatalog(ValueError):  # noqa: N818  # as MalformedCheckpoint
    """The file exists but cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTopic:
    """One topic: partitions 0 to ``partitions`` - 1, and the settings that it overrides."""

    id: UUID
    partitions: int
    overrides: Mapping[str, str] = field(default_factory=dict)
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Encoded once: when one topic changes, the lines of all thousands are written again.
        text = json.dumps(
            {
                "id": uuid_text(self.id),
                "partitions": self.partitions,
                "configs": dict(self.overrides),
            }
        )
        object.__setattr__(self, "text", text)


@dataclass(slots=True, kw_only=True)
class CatalogState:
    """The content of the file. To change it, change a copy and write the copy.

    ``deleted`` has the ids of topics whose folders may still have their names: the next start
    removes these folders, so that a topic is deleted as a whole or not at all. ``retired`` has the
    names of deleted topics for which groups may still have offsets. Each name has the id of the
    topic that was deleted last; the file does not store this id. ``generation`` counts the writes:
    it shows which of two files is newer after a change of the order of log.dirs.
    """

    topics: dict[str, CatalogTopic] = field(default_factory=dict)
    deleted: frozenset[UUID] = frozenset()
    retired: dict[str, UUID] = field(default_factory=dict)
    cluster_configs: Mapping[str, str] = field(default_factory=dict)
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    features_epoch: int = 1
    generation: int = 0

    def copy(self) -> "CatalogState":
        """Return a copy with topics and retired names of its own."""
        return replace(self, topics=dict(self.topics), retired=dict(self.retired))


class Catalog:
    """The file in the first of the log directories; ``state`` is its content.

    ``found`` tells whether a file existed: without one, only the folders show which topics exist.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self.path = self._directories[0] / FILE_NAME
        self.state = CatalogState()
        self.found = False

    def load(self) -> None:
        """Read the newest file of all log directories; there may be none. Blocks.

        Raises:
            LogDirError: A file is damaged, or of a newer version of this program.
        """
        found = [_read(directory / FILE_NAME) for directory in self._directories]
        states = [state for state in found if state is not None]
        self.found = bool(states)
        self.state = max(states, key=lambda state: state.generation, default=CatalogState())

    def write(self, state: CatalogState) -> None:
        """Replace the file. Blocks.

        Raises:
            OSError: The disk refused the write; the old file stays.
        """
        files.replace_file(self.path, encode(state), mode=_mode_of(state))

    def put_back(self, state: CatalogState) -> bool:
        """Restore the old content after a write that failed; tell whether it is back. Blocks.

        The client of a failed change got an error, so a restart must not find that change, such as
        the deletion of a topic that is still used. And with half a file no broker starts.
        """
        content = encode(state) if state.generation else None
        return files.put_back(self.path, content, _mode_of(state))


def _mode_of(state: CatalogState) -> int:
    """Return the mode of the file: only its owner may read it if a setting is a secret."""
    from siltstone.config.known import known_broker  # noqa: PLC0415  # few clients alter settings

    known = map(known_broker, {*state.cluster_configs, *state.broker_configs})
    is_secret = any(each is not None and each.kind.is_sensitive for each in known)
    return _SECRET_MODE if is_secret else files.FILE_MODE


def encode(state: CatalogState) -> bytes:
    """Return the text of the file: JSON with one topic per line, in the order of their creation."""
    topics = ",\n".join(
        f"  {json.dumps(name)}: {topic.text}" for name, topic in state.topics.items()
    )
    head = json.dumps(
        {
            "version": VERSION,
            "generation": state.generation,
            "next_producer_id": state.next_producer_id,
            "cluster_configs": dict(state.cluster_configs),
            "broker_configs": dict(state.broker_configs),
            "group_configs": {name: dict(own) for name, own in state.group_configs.items()},
            "client_metrics": {name: dict(own) for name, own in state.client_metrics.items()},
            "features": dict(state.features),
            "features_epoch": state.features_epoch,
            "deleted": sorted(uuid_text(topic_id) for topic_id in state.deleted),
            "retired": sorted(state.retired),
        },
        indent=1,
    )
    body = f"{{\n{topics}\n }}" if topics else "{}"
    return seal(f'{head[:-2]},\n "topics": {body}\n}}'.encode())


def decode(text: bytes) -> CatalogState:
    """Return the state that the text of the file describes.

    Raises:
        MalformedCatalog: The text is not that of a catalogue; the message says what is wrong.
    """
    try:
        content = read_sealed(text, VERSION, _NAMES)
    except ValueError as error:
        raise MalformedCatalog(str(error)) from error
    topics = {name: _topic(name, entry) for name, entry in _get(content, "topics", dict).items()}
    deleted = frozenset(map(parse_uuid, _names(content, "deleted")))
    _check_ids(topics, deleted)
    return CatalogState(
        topics=topics,
        deleted=deleted,
        retired=dict.fromkeys(_names({"retired": [], **content}, "retired"), UUID(int=0)),
        cluster_configs=_configs(content, "cluster_configs"),
        broker_configs=_configs(content, "broker_configs"),
        group_configs=_configs_by_name(content, "group_configs"),
        client_metrics=_configs_by_name(content, "client_metrics"),
        next_producer_id=_number(content, "next_producer_id", _MAX_LONG // 2),
        features=_features(content),
        features_epoch=_number({"features_epoch": 1, **content}, "features_epoch"),
        generation=_number(content, "generation"),
    )


def _read(path: Path) -> CatalogState | None:
    try:
        return decode(files.read_whole(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise LogDirError(
            f"{_find_closed(path)} by this user; give it the right to or choose another log.dirs"
        ) from error
    except OSError as error:
        raise LogDirError(f"{path} cannot be read: {error}; check the disk") from error
    except ValueError as error:
        raise LogDirError(
            f"{path} cannot be used: {error}; repair it, or move it away to have the topics made "
            "again from their folders, which loses their settings"
        ) from error


def _find_closed(path: Path) -> str:
    """Return the action that the rights of a file or of its folder do not allow, in words."""
    try:
        files.find_size(str(path))
    except PermissionError:
        return f"log directory {path.parent} cannot be entered"
    except OSError:
        pass  # the file is to blame
    return f"{path} cannot be read"


def _topic(name: str, entry: Any) -> CatalogTopic:
    try:
        check_topic_name(name)
        partitions = _number(entry, "partitions", MAX_PARTITIONS)
        if not partitions:
            raise MalformedCatalog("it has no partitions")
        return CatalogTopic(
            id=parse_uuid(_get(entry, "id", str)),
            partitions=partitions,
            overrides=_configs(entry, "configs"),
        )
    except ValueError as error:
        raise MalformedCatalog(f"topic {name}: {error}") from error
    except InvalidTopic as error:  # with such a name its folders would lie elsewhere
        raise MalformedCatalog(error.message) from error


def _check_ids(topics: Mapping[str, CatalogTopic], deleted: frozenset[UUID]) -> None:
    """Refuse a topic that is also in ``deleted``: the start would remove its folders."""
    for name, topic in topics.items():
        if topic.id in deleted:
            raise MalformedCatalog(f"topic {name} exists and its id is among the deleted ones")


def _configs(content: Any, name: str) -> Mapping[str, str]:
    configs = _get(content, name, dict)
    for key, value in configs.items():
        if not isinstance(value, str):
            raise MalformedCatalog(f"{key} in {name} is not a string")
    return dict(configs)


def _names(content: Any, name: str) -> frozenset[str]:
    names = _get(content, name, list)
    if not all(isinstance(each, str) for each in names):
        raise MalformedCatalog(f"{name} has what is not a string")
    return frozenset(names)


def _configs_by_name(content: Any, name: str) -> Mapping[str, Mapping[str, str]]:
    found = _get({name: {}, **content}, name, dict)  # older files lack them
    return {each: _configs(found, each) for each in found}


def _features(content: Any) -> Mapping[str, int]:
    levels = _get({"features": {}, **content}, "features", dict)  # older files lack them
    return {feature: _number(levels, feature, _MAX_LEVEL) for feature in levels}


def _number(content: Any, name: str, largest: int = _MAX_LONG) -> int:
    value: int = _get(content, name, int)
    if not 0 <= value <= largest:
        raise MalformedCatalog(f"{name} is not from 0 to {largest}")
    return value


def _get(content: Any, name: str, kind: type) -> Any:
    value = content.get(name) if isinstance(content, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedCatalog(f"{name} is missing or no {kind.__name__}")
    return value
