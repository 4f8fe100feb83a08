"""JSON files that decide about topics and rights: what is ambiguous in one is refused."""

from __future__ import annotations

import json
from typing import Any


def read_json(content: bytes) -> Any:
    """Return what a file holds.

    Raises:
        ValueError: It is no JSON, is nested too deep, has a name twice in one object (others
            may see the first, and we the last), or a number that is none.
    """
    try:
        return json.loads(content, object_pairs_hook=_each_once, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {twice!r} twice")
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number")
