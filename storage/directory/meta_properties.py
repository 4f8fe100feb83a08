"""``meta.properties``: the cluster and broker of a log directory (``MetaProperties``, version 1).

The file is Java properties text. Its first two lines are comments; the second is the time of
writing as Java prints it.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, read_text

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a log directory; ids are base64url text of 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: str

    @classmethod
    def read(cls, log_directory: Path) -> "MetaProperties | None":
        """Return the directory's identity, None without a file; ``directory_id`` may be empty.

        Raises:
            MalformedCheckpoint: A property is missing or invalid.
        """
        path = log_directory / files.META_PROPERTIES
        text = read_text(path)
        if text is None:
            return None
        properties = _parse(text)
        if properties.get("version") != str(VERSION):
            raise MalformedCheckpoint(
                f"{path}: version={properties.get('version', '')} is not {VERSION}; "
                "the directory was not written in KRaft mode"
            )
        try:
            return cls(
                cluster_id=properties["cluster.id"],
                node_id=int(properties["node.id"]),
                directory_id=properties.get("directory.id", ""),
            )
        except KeyError as error:
            raise MalformedCheckpoint(f"{path}: {error.args[0]} is missing") from error
        except ValueError as error:
            raise MalformedCheckpoint(f"{path}: node.id is not a number") from error

    def write(self, log_directory: Path, now_ms: int) -> None:
        """Replace the directory's file. Blocks."""
        moment = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
        lines = [
            "#",
            f"#{moment}",
            f"version={VERSION}",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={self.directory_id}",
        ]
        text = "\n".join(lines) + "\n"
        files.replace_file(log_directory / files.META_PROPERTIES, text.encode())


def _parse(text: str) -> dict[str, str]:
    """Return the properties. Escapes and continued lines are not supported: none are needed."""
    properties = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, _, value = stripped.partition("=")
        properties[name.strip()] = value.strip()
    return properties
