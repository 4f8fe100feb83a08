"""JSON that decides about topics and rights: ambiguous or damaged text is refused.

The files of this broker end with a checksum of all bytes before it. A file without one is accepted,
so that a person can write or repair it.
"""

import json
from collections.abc import Collection
from typing import Any

from siltstone.protocol.core import crc32c

_CHECKSUM = "crc32c"


def seal(text: bytes) -> bytes:
    """Return the text of a JSON object with its checksum as the last member."""
    body = text.rstrip().removesuffix(b"}").rstrip()
    return body + b',\n "%b": "%08x"\n}\n' % (_CHECKSUM.encode(), crc32c(body))


def read_sealed(content: bytes, version: int, names: Collection[str]) -> dict[str, Any]:
    """Return the JSON object of a file of a version; ``names`` are those that it may have.

    Raises:
        ValueError: It is damaged, or of another version; the message says what is wrong.
    """
    found = read_json(content)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  # of the text, not of an argument
    if found.get("version") != version:
        raise ValueError(
            f"its version is {found.get('version')}, this program knows {version}; if a newer "
            "program wrote it, start that one again"
        )
    if _CHECKSUM in found and seal(content[: content.rindex(b",")] + b"}") != content:
        raise ValueError(f"its checksum is wrong; remove {_CHECKSUM} after a repair by hand")
    unknown = found.keys() - {"version", _CHECKSUM, *names}
    if unknown:
        raise ValueError(f"it has {min(unknown)!r}, which this program does not know")
    return found


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
