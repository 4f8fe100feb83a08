"""The tables of messages in their plain form, which is the specification of the compiled one."""

from typing import Any

from siltstone.protocol import messages
from siltstone.protocol.core import plain_messages
from siltstone.protocol.messages import Message


def twin_of(message: Message, version: int) -> plain_messages.Table:
    """Return the table of a version for the plain form."""
    made: dict[int, plain_messages.Table] = {}
    return convert(messages.describe(message.struct, version), message.is_flexible(version), made)


def convert(
    description: Any, is_flexible: bool, made: dict[int, plain_messages.Table]
) -> plain_messages.Table:
    """Make plain tables of descriptions, inner ones first."""
    struct, rows = description
    children = [
        row._replace(child=row.child and convert(row.child, is_flexible, made)) for row in rows
    ]
    return plain_messages.Table(struct, children, is_flexible)
