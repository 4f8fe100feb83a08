"""Answers that are nothing but an error code: of any API and version, found in their tables.

A structure that has an error code of its own has no more than that, and what it is named by in the
request: topic, partition, group. One that has none answers element for element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.core import Grid
from siltstone.protocol.core.fields import KINDS
from siltstone.protocol.messages import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from siltstone.protocol.core.fields import Field
    from siltstone.protocol.messages import Description, Message

_STRUCT: Final = KINDS.index("struct")
_ARRAYS: Final = (list, tuple, Grid)
_SAME: Final = (
    {"name", "topic", "topic_name"},
    {"index", "partition", "partition_index"},
    {"key", "group_id", "transactional_id"},
)
"""Names that one thing has in requests and in answers."""


def make_error_answer(
    response: Message, version: int, request: Any, code: int, *, of_each: bool = False
) -> Any:
    """Return a response to ``request``, None if it has no place for a code.

    With ``of_each`` the innermost elements that the request names have the code, partitions say;
    what they stand in has it only where it names none.
    """
    answer, has_code = _fill(describe(response.struct, version), request, code, of_each=of_each)
    return answer if has_code else None


def _fill(description: Description, request: Any, code: int, *, of_each: bool) -> tuple[Any, bool]:
    struct: Any = description[0]  # a tuple of named fields
    fields = description[1]
    named = dict(zip(struct._fields, fields, strict=True))
    values = {name: value for name in named for value in _same_value(name, named[name], request)}
    errors = [
        name
        for name, field in named.items()
        if field.is_error and field.is_present and field.tag < 0
    ]
    if errors and not of_each:
        return struct(**values, **{errors[0]: code}), True
    for name, field in named.items():
        if field.is_array and field.kind == _STRUCT and field.is_present:
            elements = _elements(name, request)
            filled = [_fill(field.child, each, code, of_each=of_each) for each in elements]
            if any(has_code for _, has_code in filled):
                return struct(**values, **{name: [element for element, _ in filled]}), True
    return struct(**values, **dict.fromkeys(errors[:1], code)), bool(errors)


def _same_value(name: str, field: Field, request: Any) -> Iterator[Any]:
    """Yield what the request has under the same name, if it has."""
    if field.is_array or field.is_error or field.kind == _STRUCT:
        return
    kind = type(field.default)
    if not hasattr(request, "_fields"):  # an element that is a name, or a number
        if isinstance(request, kind) and any(name in names for names in _SAME):
            yield request
        return
    names = next((names for names in _SAME if name in names), {name})
    for each in (name, *sorted(names)):
        if each in request._fields:  # a tuple has methods of such names
            value = getattr(request, each)
            if value is not None and not isinstance(value, _ARRAYS):
                yield value
                return


def _elements(name: str, request: Any) -> Sequence[Any]:
    """Return the array of the request that an array of the answer is about."""
    if not hasattr(request, "_fields"):
        return ()
    arrays = {
        each: value
        for each, value in zip(request._fields, request, strict=True)
        if isinstance(value, _ARRAYS) and not hasattr(value, "_fields")
    }
    found = arrays.get(name) or next(filter(None, arrays.values()), ())
    return tuple(found)
