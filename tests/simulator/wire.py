"""A client's end of the protocol: requests and answers by the tables of `protocol.messages`."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import BY_KEY
from siltstone.protocol.messages import describe
from tests.simulator.world.network import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.protocol.messages import Message
    from tests.simulator.incarnation import Incarnation
    from tests.simulator.world.network import Connection

_HEAD: Final = struct.Struct(">hhih")
_SIZE_BYTES: Final = 4
_NO_KEY: Final = -1
_CLIENT_ID: Final = b"simulated"


@cache
def _messages(key: int) -> tuple[Message, Message]:
    return BY_KEY[key].load_messages()


@cache
def _way_of(key: int, version: int) -> tuple[bytes, int]:
    """Return how the head of a request ends, and where the body of its answer begins."""
    asked, answered = _messages(key)
    tags = b"\0" if asked.is_flexible(version) else b""
    return _CLIENT_ID + tags, 9 if answered.has_tagged_head(version) else 8


@cache
def _parts(struct: Any) -> list[tuple[str, int, Any]]:
    """Return the fields that are arrays of structures: name, place, and the structure."""
    parts = enumerate(zip(struct._fields, describe(struct, 0)[1], strict=True))
    return [(name, at, part.child[0]) for at, (name, part) in parts if part.child and part.is_array]


def row_of(struct: Any, given: Any) -> Any:
    """Return a row of a structure of which tuples, or dicts with names, say some fields."""
    if type(given) is dict:
        named = dict(given)
        for name, _, part in _parts(struct):
            if rows := named.get(name):
                named[name] = [row_of(part, each) for each in rows]
        return struct(**named)
    if type(given) is not tuple:
        return given
    values = list(given)
    for _, at, part in _parts(struct):
        if at < len(values) and values[at]:
            values[at] = [row_of(part, each) for each in values[at]]
    return struct(*values)


def row_for(key: int, given: Any) -> Any:
    """Return the row of a request."""
    return row_of(_messages(key)[0].struct, given)


class Gone(Exception):  # noqa: N818  # no error: a kill
    """The connection has ended without an answer, although it was needed."""


class Lost:
    """The answer of a connection that ended without one."""

    def __repr__(self) -> str:
        return "Lost"


LOST: Final = Lost()


class Question:
    """A request on its way. ``answer`` is None, then the response, or `LOST`.

    Answers of a connection come in the order of their requests: to wait for the last is enough.
    ``is_cut`` tells that the broker has closed the connection instead of an answer, although no
    request before it has gone without one, whose refusal a broker tells so.
    """

    __slots__ = ("answer", "correlation_id", "is_cut", "key", "version")

    def __init__(self, key: int, version: int, correlation_id: int) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.answer: Any = None
        self.is_cut = False

    @property
    def is_lost(self) -> bool:
        """Tell whether the connection ended without an answer."""
        return self.answer is LOST

    @property
    def response(self) -> Any:
        """The answer, where a client without one cannot go on.

        Raises:
            Gone: It has no answer.
        """
        if self.answer is LOST:
            raise Gone(f"API {self.key}")
        assert self.answer is not None, f"no answer to API {self.key} before one to a later request"
        return self.answer

    def read(self, frame: bytes) -> None:
        """Take the answer out of its frame."""
        _, answered = _messages(self.key)
        start = _way_of(self.key, self.version)[1]
        self.answer, end = answered.read(self.version, frame, start, len(frame), room=1 << 30)
        assert end == len(frame), f"bytes behind the answer to API {self.key}"


class Pending(Question):
    """A wait for something else than an answer of a connection: it is lost if the broker ends."""

    def __init__(self) -> None:
        super().__init__(_NO_KEY, 0, 0)
        self.task: Any = None

    def end(self, answer: Any = None) -> None:
        """Note that it has come."""
        self.answer = self if answer is None else answer

    @property
    def is_lost(self) -> bool:
        """Tell whether the broker was killed meanwhile."""
        return self.answer is None


def ask(key: int, row: Any, version: int | None, correlation_id: int) -> tuple[Question, bytes]:
    """Return a question and its frame, of the newest version unless one is given."""
    asked, _ = _messages(key)
    version = asked.last if version is None else version
    head = _HEAD.pack(key, version, correlation_id, len(_CLIENT_ID)) + _way_of(key, version)[0]
    body = head + asked.write(version, row_for(key, row))
    return Question(key, version, correlation_id), len(body).to_bytes(4, "big") + body


class Client:
    """A client with one connection at a time, which is made when it is needed.

    ``splits`` is how often a frame arrives in two pieces, the second one late; else the world says.
    """

    def __init__(
        self,
        incarnation: Callable[[], Incarnation],
        *,
        splits: float | None = None,
        host: str = HOST,
    ) -> None:
        self._incarnation = incarnation
        self._splits = splits
        self._host = host
        self._connection: Connection | None = None
        self._received = bytearray()
        self._late = bytearray()
        self._waiting: dict[int, Question] = {}
        self._correlation_id = 0
        self._unanswered = 0

    @property
    def connection(self) -> Connection:
        """The connection, a new one if the last has ended."""
        connection = self._connection
        if connection is None or connection.is_closed or connection.is_reset:
            self.forget()
            connection = self._connection = self._incarnation().connect(self._host)
            connection.on_output = self._on_output
        return connection

    def send(
        self, key: int, row: Any, version: int | None = None, *, is_answered: bool = True
    ) -> Question:
        """Send a request, of `row_for`, by the newest version unless one is given."""
        connection = self.connection
        self._correlation_id += 1
        question, frame = ask(key, row, version, self._correlation_id)
        if is_answered:
            self._waiting[question.correlation_id] = question
        else:
            self._unanswered = question.correlation_id
        self._push(connection, frame)
        return question

    def _push(self, connection: Connection, frame: bytes) -> None:
        """Have a frame arrive, or its second part late; frames behind it arrive behind it."""
        world = connection.world
        if self._late:
            self._late += frame
        elif world.choices.random() >= (world.splits if self._splits is None else self._splits):
            connection.push(frame)
        else:
            at = world.choices.randrange(1, len(frame))
            connection.push(frame[:at])
            late = self._late = bytearray(frame[at:])

            def arrive() -> None:
                connection.push(bytes(late))
                late.clear()

            world.later(world.choices.random() * 0.01, arrive)

    def _on_output(self) -> None:
        """Take what has come, so that the broker may send more; read whole answers."""
        connection = self._connection
        if connection is None:
            return
        received = self._received
        received += connection.take(len(connection.output))
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            if len(received) < end:
                break
            frame = bytes(memoryview(received)[:end])
            del received[:end]
            self._read(frame)
        if connection.is_closed:
            for question in self._waiting.values():
                question.is_cut = not self._unanswered
            self.forget()

    def _read(self, frame: bytes) -> None:
        question = self._waiting.pop(int.from_bytes(frame[4:8], "big"))
        if question.correlation_id > self._unanswered:
            self._unanswered = 0  # what was before it was served
        question.read(frame)

    def reset(self) -> None:
        """Break the connection off."""
        if self._connection is not None:
            self._connection.reset()
        self.forget()

    def forget(self) -> None:
        """Give the connection up; what has no answer is lost."""
        self._connection = None
        self._unanswered = 0
        self._received.clear()
        self._late = bytearray()
        for question in self._waiting.values():
            question.answer = LOST
        self._waiting.clear()
