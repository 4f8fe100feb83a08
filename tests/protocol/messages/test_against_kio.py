"""Every table, every version, both directions: byte for byte what kio writes and reads."""

import random
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from protocol import core, messages
from protocol.core import plain_messages
from protocol.errors import ProtocolError
from protocol.messages import NO_ID, Message
from tests.support.kio_messages import (
    encode,
    encode_with_unknown_tags,
    example,
    smallest,
)
from tests.support.message_twins import twin_of

MODULES = sorted(
    path.stem
    for path in Path(messages.__file__).parent.glob("[a-z]*.py")
    if path.stem != "__init__"
)


def find_cases() -> list[Any]:
    """Return (message, kio's class) of every version of every module."""
    cases = []
    for name in MODULES:
        module = import_module(f"protocol.messages.{name}")
        for direction, load in (
            ("REQUEST", load_request_schema),
            ("RESPONSE", load_response_schema),
        ):
            message = getattr(module, direction)
            for version in range(message.first, message.last + 1):
                schema = load(message.key, version)
                cases.append(
                    pytest.param(message, schema, id=f"{name}-{direction.lower()}-{version}")
                )
    return cases


CASES = find_cases()
SEEDS = 10


def entities(schema: Any) -> list[Any]:
    """Return an example, the smallest and some random entities of a class."""
    chance = random.Random(schema.__name__)
    several = [vary(example(schema, seed, seed % 4), chance) for seed in range(3, 3 + SEEDS)]
    return [example(schema), smallest(schema), *several]


def vary(entity: Any, chance: random.Random) -> Any:
    """Return an entity in which some of what may be null is, and some defaults stand."""
    values = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        kind = classify_field(field)
        if is_optional(field) and chance.random() < 0.3:
            value = None
        elif field.default is not MISSING and chance.random() < 0.2:
            value = getattr(smallest(type(entity)), field.name)
        elif isinstance(kind, EntityField) and value is not None:
            value = vary(value, chance)
        elif isinstance(kind, EntityTupleField) and value is not None:
            value = tuple(vary(each, chance) for each in value)
        values[field.name] = value
    return type(entity)(**values)


def read(message: Message, version: int, body: bytes) -> Any:
    """Read a body that lies between other bytes, as in a receive buffer."""
    buffer = bytearray(b"\xff" * 5 + body + b"\xff" * 5)
    row, position = message.read(version, buffer, 5, 5 + len(body))
    assert position == 5 + len(body)
    return row


def assert_says_the_same(row: Any, entity: Any) -> None:
    """Compare a structure with kio's entity, field by field."""
    for field in fields(entity):
        expected = getattr(entity, field.name)
        name = field.name
        if not hasattr(row, name):
            name = f"{name}_ms"
        assert_same(getattr(row, name), expected)


def assert_same(found: Any, expected: Any) -> None:
    """Compare two values, each in its own form."""
    if isinstance(expected, tuple) and found is not None:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "__dataclass_fields__"):
        assert_says_the_same(found, expected)
    else:
        assert found == plain(expected) or (expected is None and found in {NO_ID, -1})


def plain(value: Any) -> Any:
    """Return kio's form of a value in ours."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value


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

        row, end = plain_messages.read(twin, body, 0, len(body), 1000)

        assert (row, end) == message.read(schema.__version__, body, 0, len(body), 1000)
        assert plain_messages.write(twin, row) == body
        assert plain_messages.write_response(twin, row, 7, True, None) == message_response(
            message, schema.__version__, row
        )


@pytest.mark.parametrize(("message", "schema"), CASES)
def test_a_body_cut_at_any_byte_is_refused_with_its_field(message: Message, schema: Any) -> None:
    """Bytes behind the end are not read, and both forms say the same of it."""
    version = schema.__version__
    body = encode(example(schema))
    buffer = bytearray(body + body)
    twin = twin_of(message, version)
    for end in range(len(body)):
        with pytest.raises(ProtocolError, match=r"^\w+\.[\w ]+: ") as refused:
            message.read(version, buffer, 0, end)
        with pytest.raises(ProtocolError) as expected:
            plain_messages.read(twin, buffer, 0, end, messages.MAX_ELEMENTS)
        assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize(
    ("message", "schema"), [case for case in CASES if case.values[1].__flexible__]
)
def test_unknown_tagged_fields_are_skipped_at_any_depth(message: Message, schema: Any) -> None:
    """A body with them says what it says without them (KIP-482)."""
    version = schema.__version__
    entity = example(schema, seed=5)
    body = encode_with_unknown_tags(entity)

    assert read(message, version, body) == read(message, version, encode(entity))


@pytest.mark.parametrize(("message", "schema"), CASES)
def test_damaged_bodies_are_read_alike(message: Message, schema: Any) -> None:
    """Both forms read the same out of a damaged body, or refuse it for the same reason."""
    chance = random.Random(f"{schema.__name__} {schema.__version__}")
    version = schema.__version__
    twin = twin_of(message, version)
    body = encode(example(schema, seed=7))
    for _ in range(30 if body else 0):
        damaged = bytearray(body)
        for _ in range(chance.choice([1, 1, 2, 5])):
            damaged[chance.randrange(len(body))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, 0xC3])

        found = outcome(lambda d=damaged: message.read(version, d, 0, len(d), 100))
        expected = outcome(lambda d=damaged: plain_messages.read(twin, d, 0, len(d), 100))

        assert found == expected


def outcome(call: Any) -> Any:
    """Return what a call returns, or says when it refuses."""
    try:
        return repr_of_views(call())
    except ProtocolError as error:
        return str(error)


def repr_of_views(value: Any) -> str:
    """Print a value with the bytes of views instead of their addresses."""
    if isinstance(value, memoryview):
        return repr(bytes(value))
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(repr_of_views, value))})"
    return repr(value)


def message_response(message: Message, version: int, row: Any) -> Any:
    """Return a response of the core, whose head has tagged fields."""
    return core.write_response(message.table(version), row, 7, True, None)
