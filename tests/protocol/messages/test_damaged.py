"""Bodies that are cut or damaged: both forms read the same of them, or refuse them alike."""

import random
from functools import partial
from typing import Any

import pytest

from siltstone.protocol import messages
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message
from tests.reference import messages as reference
from tests.reference.tables import outcome, twin_of
from tests.support.kio_messages import encode, example
from tests.support.message_cases import CASES


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
            reference.read(twin, buffer, 0, end, messages.MAX_ELEMENTS)
        assert str(refused.value) == str(expected.value)


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

        found = outcome(partial(message.read, version, damaged, 0, len(damaged), 100))
        expected = outcome(partial(reference.read, twin, damaged, 0, len(damaged), 100))

        assert found == expected
