"""JSON that decides about topics and rights: ambiguous text is refused."""

import json
from typing import Any


def read_json(content: bytes) -> Any:
    """Return the value of the JSON text of a file or of a token.

    Raises:
        ValueError: The text is not JSON, is nested too deep, has a name twice in one object (other
            programs may read the first, this one the last), or a number that JSON does not have.
    """
    try:
        return json.loads(content, object_pairs_hook=_each_once, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has {name!r} twice")
        found[name] = value
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number")
