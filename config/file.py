"""Settings from a YAML file with Kafka's dotted names, without nesting; every fault has its line.

The document is read as nodes, not as values: nodes have lines, and each value stays the text in the
file, which is then parsed by Kafka's rules.
"""

from pathlib import Path
from typing import Any

from siltstone.config.sources import Entry, read_file

_NULL = "tag:yaml.org,2002:null"


def file_entries(path: Path, faults: list[str]) -> list[Entry]:
    """Return the settings of a file in the file's order. Reads the disk."""
    content = read_file(path, faults)
    root = None if content is None else _compose(path, content, faults)
    if root is None:
        return []
    if root.id != "mapping":
        faults.append(
            f"{path} line {_line(root)}: write settings as NAME: VALUE, one on a line, or have a "
            "file of NAME=VALUE end in .properties"
        )
        return []
    return _entries(path, root.value, faults)


def _compose(path: Path, content: bytes, faults: list[str]) -> Any:
    """Return the root node, or None for a file without settings or with a fault."""
    import yaml  # noqa: PLC0415 - a start without a file need not wait for it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.compose(content, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark is not None else ""
        faults.append(f"{path}{line}: this is not YAML: {error.problem}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        faults.append(f"{path}: this is not YAML: {str(error).splitlines()[0]}")
    return None


def _entries(path: Path, pairs: list[tuple[Any, Any]], faults: list[str]) -> list[Entry]:
    entries: dict[str, Entry] = {}
    lines: dict[str, int] = {}
    for key, value in pairs:
        where = f"{path} line {_line(key)}"
        name = str(key.value) if key.id == "scalar" else None
        if name is None:
            faults.append(f"{where}: a name is one word like log.segment.bytes")
        elif name in lines:
            faults.append(f"{where}: {name} is already on line {lines[name]}; remove one of them")
        else:
            lines[name] = _line(key)
            text = _text(value, f"{where}: {name}", faults)
            if text is not None:
                entries[name] = Entry(name, text, where)
    return list(entries.values())


def _text(node: Any, what: str, faults: list[str]) -> str | None:
    """Return the text of a value; the items of a list are joined by commas."""
    if node.id == "mapping":
        faults.append(f"{what} holds settings of its own; write each with its whole dotted name")
        return None
    items = node.value if node.id == "sequence" else [node]
    if any(item.id != "scalar" for item in items):
        faults.append(f"{what} is a list of lists; write a list of words")
        return None
    if any(item.tag == _NULL for item in items):
        faults.append(f"{what} has no value; give it one, or remove the line to keep the default")
        return None
    return ",".join(item.value for item in items)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
