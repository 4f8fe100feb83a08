"""Requests read in plain Python, which guides the search, and in compiled form: both say the same.

``python -m tests.fuzz.decoding FOLDER [arguments of libFuzzer]``; ``make fuzz`` runs it.
"""

import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["tests.reference.messages"]):
    from siltstone.broker.api import BY_KEY
    from siltstone.broker.net.dispatch import SERVED
    from siltstone.protocol import core
    from tests.fuzz.guiding import find
    from tests.reference import messages as reference
    from tests.reference.tables import outcome, twin_of
    from tests.support.frames import corpus


@cache
def tables(key: int, version: int) -> tuple[Any, Any]:
    """Return the message of a request and its table for the plain form."""
    message, _ = BY_KEY[key].load_messages()
    return message, twin_of(message, version)


def read_plain(buffer: bytearray) -> Any:
    """Read a request, its head first."""
    head = reference.read_head(buffer, 0, len(buffer), SERVED)
    key, version, _, _, body = head
    if body < 0:
        return head
    room = BY_KEY[key].max_elements
    return head, reference.read(tables(key, version)[1], buffer, body, len(buffer), room)


def read_compiled(buffer: bytearray) -> Any:
    """Do the same in the compiled form."""
    head = core.read_head(buffer, 0, len(buffer), SERVED)
    key, version, _, _, body = head
    if body < 0:
        return head
    message, _ = tables(key, version)
    return head, message.read(version, buffer, body, len(buffer), BY_KEY[key].max_elements)


def read_both(data: bytes) -> None:
    """Read an input in both forms."""
    buffer = bytearray(data)
    plain = outcome(partial(read_plain, buffer))
    compiled = outcome(partial(read_compiled, buffer))
    if plain != compiled:
        raise AssertionError(f"{plain} in plain Python, compiled {compiled}")


if __name__ == "__main__":
    find(read_both, corpus(), Path(sys.argv[1]))
