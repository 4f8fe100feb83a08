"""The compiled core and its plain twin: bytes and numbers in, values out, nothing of the broker.

`plain_messages` is the specification: it is what runs where there is no compiler, and what the
tests hold the compiled form against. Import the names from here.
"""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol.core.plain_messages import (
        COMPILED,
        Table,
        read,
        read_head,
        read_in_steps,
        write,
        write_pairs,
        write_response,
        write_response_in_steps,
    )
else:
    _messages = choose("protocol.core._messages", plain="protocol.core.plain_messages")
    COMPILED = _messages.COMPILED
    Table = _messages.Table
    read = _messages.read
    read_head = _messages.read_head
    read_in_steps = _messages.read_in_steps
    write = _messages.write
    write_pairs = _messages.write_pairs
    write_response = _messages.write_response
    write_response_in_steps = _messages.write_response_in_steps

__all__ = [
    "COMPILED",
    "Table",
    "read",
    "read_head",
    "read_in_steps",
    "write",
    "write_pairs",
    "write_response",
    "write_response_in_steps",
]
