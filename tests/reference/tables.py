"""The tables of messages in their plain form, which is the specification of the compiled one."""

from collections.abc import Callable
from typing import Any

from siltstone.protocol import core, messages
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message
from tests.reference import messages as reference


def twin_of(message: Message, version: int) -> reference.Table:
    """Return the table of a version for the plain form."""
    made: dict[int, reference.Table] = {}
    return convert(messages.describe(message.struct, version), message.is_flexible(version), made)


def convert(
    description: Any, is_flexible: bool, made: dict[int, reference.Table]
) -> reference.Table:
    """Make plain tables of descriptions, inner ones first."""
    struct, rows = description
    children = [
        row._replace(child=row.child and convert(row.child, is_flexible, made)) for row in rows
    ]
    return reference.Table(struct, children, is_flexible)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or says when it refuses."""
    try:
        return repr_of_views(call())
    except ProtocolError as error:
        return str(error)


def repr_of_views(value: Any) -> str:
    """Print a value with the bytes of views instead of their addresses."""
    if isinstance(value, memoryview):
        return repr(bytes(value))
    if isinstance(value, (core.Grid, reference.Grid)):
        value = list(value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(repr_of_views, value))})"
    return repr(value)
