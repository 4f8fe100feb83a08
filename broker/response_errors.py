"""The error codes inside a response, for the errors that metrics count by API and code.

Where a response keeps its codes is read from its class once: most have one at the top, one in
each topic, one in each partition.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator

_NONE = 0


def find_errors(entity: Any) -> Iterator[int]:
    """Yield every error code of a response that is not zero."""
    has_code, children = _places(type(entity))  # type: ignore[arg-type]  # a class is hashable
    if has_code and int(entity.error_code) != _NONE:
        yield int(entity.error_code)
    for name in children:
        for child in getattr(entity, name) or ():
            yield from find_errors(child)


@cache
def _places(entity_class: type) -> tuple[bool, tuple[str, ...]]:
    """Return whether the class has a code of its own, and which of its arrays hold more."""
    names = {field.name: field.type for field in fields(entity_class)}
    return "error_code" in names, tuple(
        name for name, kind in names.items() if any(map(_holds_codes, _nested(kind)))
    )


def _nested(kind: Any) -> Iterator[type]:
    """Yield the entities that an annotation such as ``tuple[Topic, ...] | None`` names."""
    for argument in get_args(kind):
        if is_dataclass(argument) and isinstance(argument, type):
            yield argument
        else:
            yield from _nested(argument)


def _holds_codes(entity_class: type) -> bool:
    has_code, children = _places(entity_class)
    return has_code or bool(children)
