"""Every table, every version, both directions: byte for byte what kio writes and reads."""

from typing import Any

import pytest

from siltstone.protocol import core
from siltstone.protocol.messages import Message
from tests.reference import messages as reference
from tests.reference.tables import twin_of
from tests.support.kio_messages import encode, encode_with_unknown_tags, example
from tests.support.message_cases import CASES, entities
from tests.support.message_compare import assert_says_the_same


def read(message: Message, version: int, body: bytes) -> Any:
    """Read a body that lies between other bytes, as in a receive buffer."""
    buffer = bytearray(b"\xff" * 5 + body + b"\xff" * 5)
    row, position = message.read(version, buffer, 5, 5 + len(body))
    assert position == 5 + len(body)
    return row


@pytest.mark.parametrize(("message", "schema"), CASES)
def test_reads_and_writes_what_kio_does(message: Message, schema: Any) -> None:
    """Each field says the same, and what is written of it are the same bytes."""
    for entity in entities(schema):
        body = encode(entity)

        row = read(message, schema.__version__, body)

        assert isinstance(row, message.struct)
        assert_says_the_same(row, entity)
        assert message.write(schema.__version__, row) == body


@pytest.mark.parametrize(("message", "schema"), CASES)
def test_the_plain_twin_does_the_same(message: Message, schema: Any) -> None:
    """The specification reads and writes the same, whole and cut."""
    twin = twin_of(message, schema.__version__)
    for entity in entities(schema)[:4]:
        body = encode(entity)

        row, end = reference.read(twin, body, 0, len(body), 1000)

        assert (row, end) == message.read(schema.__version__, body, 0, len(body), 1000)
        assert reference.write(twin, row) == body
        assert reference.write_response(twin, row, 7, True, None) == message_response(
            message, schema.__version__, row
        )


@pytest.mark.parametrize(
    ("message", "schema"), [case for case in CASES if case.values[1].__flexible__]
)
def test_unknown_tagged_fields_are_skipped_at_any_depth(message: Message, schema: Any) -> None:
    """A body with them says what it says without them (KIP-482)."""
    version = schema.__version__
    entity = example(schema, seed=5)
    body = encode_with_unknown_tags(entity)

    assert read(message, version, body) == read(message, version, encode(entity))


def message_response(message: Message, version: int, row: Any) -> Any:
    """Return a response of the core, whose head has tagged fields."""
    return core.write_response(message.table(version), row, 7, True, None)
