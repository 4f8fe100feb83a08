"""Awaits a handler, which answers at once or by a coroutine, and returns the answer.

The answer is what a client reads: written by the tables of its version and read back with kio.
"""

from inspect import isawaitable
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader

from siltstone.broker.api import BY_KEY
from tests.support.kio_messages import encode
from tests.support.newer_than_kio import is_newer
from tests.support.services import ServicesOnDisk


async def ask(home: ServicesOnDisk, key: int, request: Any, version: int | None = None) -> Any:
    """Return the handler's answer as a client of that version, or of the newest, reads it.

    ``request`` is an entity of kio's, or one of the structures of `protocol.messages`. An answer of
    a version that kio does not know is read by our tables.
    """
    context = home.context(key, version)
    asked, answered = BY_KEY[key].load_messages()
    if not isinstance(request, tuple):
        body = encode(request)
        request, _ = asked.read(type(request).__version__, body, 0, len(body))
    answer = BY_KEY[key].load()(context, request)
    response = await answer if isawaitable(answer) else answer
    frame: Any = answered.respond(context.version, 1, response)
    return read_answer(key, context.version, frame)


def read_answer(key: int, version: int, frame: bytes) -> Any:
    """Return the answer in a frame as kio reads it; as our tables do if kio lacks the version."""
    if is_newer(key, version):
        answered = BY_KEY[key].load_messages()[1]
        start = 9 if answered.has_tagged_head(version) else 8
        return answered.read(version, frame, start, len(frame))[0]
    cls: Any = load_response_schema(key, version)
    _, size = entity_reader(cls.__header_schema__)(frame[4:], 0)
    return entity_reader(cls)(frame[4:], size)[0]
