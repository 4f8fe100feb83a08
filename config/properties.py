r"""Settings from a properties file as Apache Kafka's (java.util.Properties), each with its line.

If a name comes twice, its last value counts, as scripts that append to a file expect. A line is
NAME=VALUE, NAME: VALUE or NAME VALUE; # and ! begin a comment, and a backslash at the end of a line
continues the line on the next one. Letters beyond ASCII are Latin-1, or \uXXXX.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from siltstone.config.sources import Entry, read_file

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MEANINGS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def properties_entries(
    path: Path, faults: list[str], warnings: list[str], option: str = "--config"
) -> list[Entry]:
    """Return the settings of a file in the file's order; ``option`` named it. Reads the disk."""
    text = (read_file(path, faults, option) or b"").removeprefix(BOM_UTF8).decode("latin-1")
    entries: dict[str, Entry] = {}
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text):
        name, value = _pair(line)
        if name in lines:
            warnings.append(
                f"{path} line {number}: {name} is on line {lines[name]} too; this value counts, as "
                "the last; remove the other"
            )
        lines[name] = number
        entries[name] = Entry(name, value, f"{path} line {number}")
    return list(entries.values())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines, without empty lines, each with the number of its first line."""
    begun, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        part = line.lstrip(_BLANKS)
        if not begun and (not part or part[0] in "#!"):
            continue
        first = first if begun else number
        slashes = len(part) - len(part.rstrip("\\"))
        if slashes % 2:
            begun += part[:-1]
            continue
        yield first, begun + part
        begun = ""
    if begun:
        yield first, begun


def _pair(line: str) -> tuple[str, str]:
    match = _PAIR.fullmatch(line)
    name, value = ("", "") if match is None else match.groups()
    return _unescaped(name), _unescaped(value)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _MEANINGS.get(found[2], found[2]),
        text,
    )
