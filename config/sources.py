"""Settings as text with their place: from the environment, and from `--set`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from siltstone.config.known import known_settings
from siltstone.config.naming import did_you_mean
from siltstone.config.table import BROKER

PREFIX = "SILTSTONE_"
RESERVED = frozenset(PREFIX + name for name in ("CA", "CACHE", "CONFIG", "LOG_FORMAT", "LOG_LEVEL"))
"""Variables that are no settings: they are for the commands, the build and the tests."""

_ORCHESTRATOR = (PREFIX + "SERVICE_", PREFIX + "PORT")
"""Variables that Kubernetes and container links set for a service called siltstone."""


class Entry(NamedTuple):
    """One name and its value as written, and their place."""

    name: str
    text: str
    where: str


def read_file(path: Path, faults: list[str], option: str = "--config") -> bytes | None:
    """Return the bytes of a settings file that an option names; None after adding a fault.

    Reads the disk.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        faults.append(f"{path} cannot be read: {error.strerror}; name another file by {option}")
        return None


def environment_entries(environ: Mapping[str, str], faults: list[str]) -> list[Entry]:
    """Return the settings among the variables, in the order of their names."""
    ours = sorted(
        name
        for name in environ
        if name.startswith(PREFIX) and name not in RESERVED and not name.startswith(_ORCHESTRATOR)
    )
    names = variables() if ours else {}
    entries = []
    for variable in ours:
        if variable in names:
            entries.append(Entry(names[variable], environ[variable], variable))
        else:
            faults.append(f"{variable} is not a setting; {_hint(variable, names)}")
    return entries


def variables() -> dict[str, str]:
    """Return the setting of each variable; no two settings share a variable."""
    names = (*BROKER, *known_settings("broker"))
    return {PREFIX + name.replace(".", "_").upper(): name for name in names}


def _hint(variable: str, names: Iterable[str]) -> str:
    if variable.startswith(PREFIX + "LISTENER_NAME_"):
        return "put settings of one listener in the file, or give them by --set"
    return did_you_mean(variable, names)


def set_entries(sets: Iterable[str], faults: list[str]) -> list[Entry]:
    """Return the settings of `--set NAME=VALUE`, in the order of the command line."""
    entries = []
    for text in sets:
        name, equals, value = text.partition("=")
        if equals and name.strip():
            entries.append(Entry(name.strip(), value, "--set"))
        else:
            faults.append(f"--set {text}: write --set NAME=VALUE")
    return entries
